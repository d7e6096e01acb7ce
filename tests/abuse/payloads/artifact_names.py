"""Names that are safe nowhere: control and bidirectional characters, separators, no text, too much text."""

import os
import sys

from tests.abuse.payloads.verdict import done

HOSTILE = (
    "line\nbreak", "back\\slash", "..\\..\\up", "nul\x01", "\x1b[2J", "\u202egnp.exe", "a:stream", "star*", "end.",
    "end ", " .. ", "~" * 200, b"\xff\xfe", "\udcff", "\u2028", "-" * 129,
)  # fmt: skip
HARMLESS = tuple(f"name-{number}" for number in range(len(HOSTILE)))
os.chdir("/work/out")
for name in HARMLESS if sys.argv[1:] == ["harmless"] else HOSTILE:
    path = name if isinstance(name, bytes) else os.fsencode(name)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
done()
