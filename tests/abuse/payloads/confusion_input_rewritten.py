"""Standard input, opened again and written to: it may be what the service holds in its memory."""

import os

from tests.abuse.payloads.verdict import attempt, done

for descriptor in (0, 1, 2):
    path = f"/proc/self/fd/{descriptor}"
    attempt(f"wrote to stream {descriptor}", lambda path: os.pwrite(os.open(path, os.O_RDWR), b"changed", 0), path)
attempt("wrote to standard input", os.pwrite, 0, b"changed", 0)
attempt("cut standard input", os.ftruncate, 0, 1)
done()
