"""One file beyond the limit of a file: written, and only said to be so long."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done, through

attempt("a sparse file of a gibibyte", lambda: os.truncate(os.open("/work/sparse", os.O_CREAT | os.O_RDWR), 1 << 30))
descriptor = os.open("/tmp/huge", os.O_CREAT | os.O_WRONLY)
attempt("a byte at a gibibyte", lambda: os.pwrite(descriptor, b"x", 1 << 30))
attempt("a gibibyte set aside", lambda: os.posix_fallocate(descriptor, 0, 40 << 20))
written = 0
try:
    for _ in range(40):
        written += os.write(descriptor, bytes(1 << 20))
except OSError:
    pass
if written > 33 << 20:
    through("one file holds more")
Path("/tmp/huge").unlink()
done()
