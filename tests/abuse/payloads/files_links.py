"""Hard links to files that are only to be read, into folders that can be written."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done

TARGETS = ("/agent.py", "/etc/passwd", "/usr/bin/env", __file__, "/proc/self/exe", "/proc/self/fd/0", "/tmp/theirs")
for number, target in enumerate(TARGETS):
    for folder in ("/work", "/tmp", "/dev/shm"):
        at = Path(folder, f"link-{number}")
        attempt(f"linked {target}", os.link, target, at)
        at.unlink(missing_ok=True)
done()
