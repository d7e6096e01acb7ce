"""Names that belong to no file system: sockets, segments. Run twice."""

import os
import socket

from tests.abuse.payloads.verdict import LIBC, done, through

if LIBC.shmget(0x5B0B, 4096, 0) >= 0:
    through("found the segment that the last run left")
LIBC.shmget(0x5B0B, 4096, 0o1600)
listening = socket.socket(socket.AF_UNIX)
try:
    listening.bind("\0skillbus-abuse-left")
except OSError:
    through("the last run's socket is there")
if os.fork() == 0:
    os.setsid()
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    listening.listen()
    listening.accept()
done()
