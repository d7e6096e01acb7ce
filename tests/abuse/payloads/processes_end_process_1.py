"""Signals to process 1 and to the parent: they must not end it, and the run must be reported as it went."""

import os
import signal
import time

from tests.abuse.payloads.verdict import done

for pid in {os.getppid(), 1} - {0}:  # its parent is no process that it sees, and 0 would be its own group
    for number in range(1, signal.NSIG):
        try:
            os.kill(pid, number)
        except OSError:
            continue
time.sleep(0.2)
done()
