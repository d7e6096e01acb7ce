"""A process that stops itself; only a child of its own would ever wake it."""

import os
import signal
import time

from tests.abuse.payloads.verdict import done, through

parent = os.getpid()
if os.fork() == 0:
    time.sleep(0.9)
    os.kill(parent, signal.SIGCONT)
    os._exit(0)
os.kill(parent, signal.SIGSTOP)
through("was stopped, and woken")
done()
