"""Folders in one another, deeper than paths go, for whoever walks them by recursion."""

import os
import sys
from pathlib import Path

from tests.abuse.payloads.verdict import done

os.chdir("/work/out")
for _ in range(int(sys.argv[1])):
    Path("d").mkdir()
    os.chdir("d")
done()
