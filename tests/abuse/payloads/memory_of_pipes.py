"""Pipes, made as large as they go, and filled."""

import fcntl
import os
import sys
from contextlib import suppress

from tests.abuse.payloads.verdict import done, through

held = 0
try:
    while True:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with suppress(OSError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
        try:
            while True:
                held += os.write(writing, bytes(65536))
        except BlockingIOError:
            continue
except OSError:
    pass
if held > int(sys.argv[1]) << 20:
    through("the pipes hold more")
done()
