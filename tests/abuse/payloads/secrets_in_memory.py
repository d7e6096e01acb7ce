"""The memory of this process: nothing of a service that it was forked from is left in it."""

import re
from pathlib import Path

from tests.abuse.payloads.verdict import done, say, through

SOUGHT = re.compile(b"skillbus-canary" + b"-[0-9a-f]{32}")
try:
    with Path("/proc/self/maps").open() as maps, Path("/proc/self/mem").open("rb", buffering=0) as memory:
        for line in maps:
            span, modes, *_, name = (*line.split(), "")[:7]
            if not modes.startswith("rw"):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            memory.seek(start)
            try:
                found = SOUGHT.search(memory.read(end - start))
            except OSError:
                continue
            if found:
                through("a secret is in this process's memory")
                say(found[0].decode())
except FileNotFoundError:
    pass
done()
