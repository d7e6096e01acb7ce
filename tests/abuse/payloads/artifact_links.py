"""Links in the output folder: to a file, to a folder, to what is above, to themselves."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import done

LINKS = {"file": "/etc/passwd", "folder": "/etc", "above": "..", "itself": "itself", "agent": "/agent.py"}
os.chdir("/work/out")
for name, target in LINKS.items():
    Path(name).symlink_to(target)
Path("kept").write_text("a regular file")
done()
