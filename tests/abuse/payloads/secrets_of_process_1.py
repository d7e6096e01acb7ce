"""Process 1, which talks to the host: its memory, its descriptors, its environment."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done


def read_one(path: str, mode: str) -> None:
    """A byte; whether it is mapped is no matter, opening is what must not work."""
    with Path(path).open(mode):
        pass


for process in ("1", str(os.getppid())):
    for file, mode in (("mem", "r+b"), ("mem", "rb"), ("environ", "rb"), ("maps", "rb")):
        attempt(f"{file} of process 1", read_one, f"/proc/{process}/{file}", mode)
    attempt("descriptors of process 1", os.listdir, f"/proc/{process}/fd")
    attempt("its working directory", os.readlink, f"/proc/{process}/cwd")
    for descriptor in range(3, 32):
        attempt("opened a descriptor of process 1", os.open, f"/proc/{process}/fd/{descriptor}", os.O_RDWR)
done()
