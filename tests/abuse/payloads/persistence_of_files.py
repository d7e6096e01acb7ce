"""Marks in every place that can be written, for the next run to find. Run twice."""

from pathlib import Path

from tests.abuse.payloads.verdict import done, through

for folder in ("/work", "/work/out", "/tmp", "/dev/shm", "/var/tmp", "/run", "/skill", "/in", "/dev/mqueue"):
    mark = Path(folder, "mark")
    try:
        if mark.exists():
            through(f"found what the last run left in {folder}")
        mark.touch()
    except OSError:
        continue
done()
