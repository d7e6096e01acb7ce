"""Writing where nothing may be written: new files, changed files, other modes, other names."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done

for folder in ("/", "/bin/", "/dev", "/etc", "/in", "/proc", "/proc/self", "/skill", "/usr", "/usr/bin", "/usr/lib"):
    attempt(f"made a folder in {folder}", Path(folder, "made").mkdir)
    attempt(f"made a file in {folder}", Path(folder, "file").touch)
for name in ("/agent.py", "/etc/passwd", "/in", "/skill", __file__, "/usr/bin/env", "/bin", "/dev/shm"):
    attempt(f"opened {name}", os.open, name, os.O_WRONLY)
    attempt(f"truncated {name}", os.truncate, name, 0)
    if name != "/dev/shm":
        attempt(f"changed the mode of {name}", os.chmod, name, 0o777)
        attempt(f"changed the times of {name}", os.utime, name, (0, 0))
    attempt(f"renamed {name}", os.rename, name, f"{name}2")
    attempt(f"removed {name}", os.unlink, name)
attempt("rewrote the interpreter", os.open, "/proc/self/exe", os.O_WRONLY)
attempt("rewrote process 1", os.open, "/proc/1/exe", os.O_WRONLY)
done()
