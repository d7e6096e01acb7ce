"""A process that stops itself; only a child of its own would ever wake it."""

import os
import signal
import sys
import time

from tests.abuse.payloads.verdict import done, through

parent = os.getpid()
if os.fork() == 0:
    time.sleep(float(sys.argv[1]))
    while True:  # it may not be stopped yet
        os.kill(parent, signal.SIGCONT)
        time.sleep(0.02)
os.kill(parent, signal.SIGSTOP)
through("was stopped, and woken")
done()
