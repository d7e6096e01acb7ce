"""More files than are taken."""

import sys
from pathlib import Path

from tests.abuse.payloads.verdict import done

for number in range(int(sys.argv[1])):
    Path(f"/work/out/{number}").touch()
done()
