"""To be the last that goes when the machine runs out of memory."""

import sys
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done

for file in ("oom_score_adj", "oom_adj"):
    attempt(f"set {file}", Path("/proc/self", file).write_text, sys.argv[1])
done()
