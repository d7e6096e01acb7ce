"""Thousands of entries without content, which no size limits: memory of the kernel."""

import os
import sys
import time
from pathlib import Path

from tests.abuse.payloads.verdict import done, through

KIND, FOLDER, WANTED, HELD_S = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
made = 0
for number in range(WANTED):
    path = FOLDER / f"{number}"
    if KIND == "files":
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    elif KIND == "folders":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    made += 1
    if number % 200 == 0:
        time.sleep(0.01)
time.sleep(HELD_S)
if made == WANTED:
    through(f"made so many {KIND}")
done()
