"""Forks as fast as can be while the run is being ended: for a tree that is killed one by one."""

import os
import sys
import time

from tests.abuse.payloads.verdict import done, through

until = time.monotonic() + float(sys.argv[1])
parent = os.getpid()
while time.monotonic() < until:
    try:
        if os.fork() == 0:
            os.setsid()
    except BlockingIOError:
        time.sleep(0.001)
if os.getpid() != parent:
    os._exit(0)
through("forked on")
done()
