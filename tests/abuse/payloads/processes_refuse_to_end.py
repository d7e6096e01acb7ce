"""A tree that ignores whatever can be ignored, and works on."""

import os
import signal
import sys
import time

from tests.abuse.payloads.verdict import done, through

SPINNERS, FOR_S = int(sys.argv[1]), float(sys.argv[2])
for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        continue
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
parent = os.getpid()
for _ in range(SPINNERS):
    if os.getpid() == parent and os.fork() == 0:
        os.setsid()
until = time.monotonic() + FOR_S
while time.monotonic() < until:
    pass
if os.getpid() != parent:
    os._exit(0)
through("lived on")
done()
