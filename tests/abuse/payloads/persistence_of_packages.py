"""Packages that other skills share: read-only, whatever their modes on the host say. Run twice."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done, through

DEPS = Path("/deps")
shared = DEPS / "shared.txt"
if (DEPS / "mark").exists() or not shared.exists() or shared.read_text() != "theirs\n":
    through("found what the last run left in the packages")
attempt("made a file among the packages", (DEPS / "mark").touch)
attempt("wrote to a package", shared.write_text, "changed\n")
attempt("changed a package's mode", os.chmod, shared, 0o777)
attempt("renamed a package", os.rename, shared, DEPS / "renamed.txt")
attempt("removed a package", shared.unlink)
done()
