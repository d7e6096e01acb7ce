"""Smaller hoards that each have a limit of their own: signals that wait, memory that is locked, message queues."""

import ctypes
import os
import resource
import signal

from tests.abuse.payloads.verdict import LIBC, done, through

number = signal.SIGRTMIN + 1
signal.pthread_sigmask(signal.SIG_BLOCK, {number})
if all(LIBC.sigqueue(os.getpid(), number, None) == 0 for _ in range(600)):
    through("queued 600 signals")
area = ctypes.create_string_buffer(1 << 20)
if LIBC.mlock(area, len(area)) == 0:
    through("locked memory")
for name in ("CORE", "MSGQUEUE"):
    if resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] > 1:
        through(f"may have {name}")
done()
