"""More bytes than are taken, none of which the disk holds."""

import os
import sys
from pathlib import Path

from tests.abuse.payloads.verdict import done

Path("/work/out/a-small").write_text("x")
Path("/work/out/b-large").touch()
os.truncate("/work/out/b-large", int(sys.argv[1]))
done()
