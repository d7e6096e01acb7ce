"""Fills a folder: it got through with more than it may hold."""

import sys
from pathlib import Path

from tests.abuse.payloads.verdict import done, through

FOLDER, AT_MOST_MIB = Path(sys.argv[1]), int(sys.argv[2])
BLOCK = bytes(1 << 20)
written = 0
try:
    for number in range(AT_MOST_MIB // 4 + 2):
        with FOLDER.joinpath(f"filler-{number}").open("wb", buffering=0) as file:
            for _ in range(4):
                written += file.write(BLOCK) or 0
except OSError:
    pass
if written > AT_MOST_MIB << 20:
    through(f"{FOLDER} holds more")
for filler in FOLDER.glob("filler-*"):
    filler.unlink()
done()
