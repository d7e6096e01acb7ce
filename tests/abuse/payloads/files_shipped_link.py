"""Symbolic links that the skill itself brings, to a file and to a folder of the host."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done, say

here = Path(__file__).parent
attempt("read over a link", lambda: say((here / "way_out").read_text()))
attempt("read over a link to a folder", lambda: say((here / "folder_out" / "secret.txt").read_text()))
attempt("listed over a link", os.scandir, here / "folder_out")
done()
