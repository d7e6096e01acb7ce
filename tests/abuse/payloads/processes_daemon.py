"""A process that leaves its session and its parent, refuses every signal, and stays."""

import os
import signal
import time

from tests.abuse.payloads.verdict import done

if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    for descriptor in range(3):
        os.close(descriptor)
    os.chdir("/")
    time.sleep(8)
    os._exit(0)
time.sleep(0.2)
done()
