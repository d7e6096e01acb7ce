"""Device nodes: made, and found beside the harmless ones."""

import os
import stat
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done, through

HARMLESS = {"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"}
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    for folder in ("/work", "/tmp", "/dev/shm"):
        attempt("made a device", os.mknod, f"{folder}/node", kind | 0o666, os.makedev(1, 1))
for folder in ("/dev", "/work", "/tmp", "/skill", "/in"):
    for path in Path(folder).rglob("*"):
        mode = path.lstat().st_mode
        if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and path.name not in HARMLESS:
            through(f"device {path}")
done()
