"""The suite's results as a page: `python -m tests.abuse.table RESULTS.xml >docs/sandbox-abuse.md`.

The results are what `pytest tests/abuse --junitxml=RESULTS.xml` writes.
"""

import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree as ET

from .harness import WAYS
from .manifest import ABUSES
from .model import Abuse

_HELD: Final = "test_it_is_held"
_WEAKENED: Final = "test_weakened_it_gets_through"
_HEAD: Final = """\
# Results of hostile skills

Use this table to see which attacks have been tried against the sandbox, and at which level they were stopped.

The suite runs every payload of `tests/abuse/payloads` in every sandbox that the machine offers: at each level, from the
warm pool, and with network access to one place. Around it lie canaries: a file that every user can read, a secret in a
neighbour's environment, listening sockets of five kinds, a segment of shared memory. The payload must reach none of
them, and no process, mount, file, descriptor or segment may be left afterwards. Then one wall is removed, and the same
payload must get through: the last column says which wall. A case whose wall cannot be removed on this machine is not
shown.

Hostile programs of code mode are in `tests/abuse/test_code_mode.py`: they flood the tool channel, forge frames, ask for
what their caller may not have, keep the channel open after their end, and share it with forks.

A threat that is not in this table has not been tried. [sandbox.md](sandbox.md) says what each level stops. The page is
written by `python -m tests.abuse.table` from a run of the suite.
"""


def page(results: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the page. `results` are outcomes by test name."""
    yield _HEAD
    yield f"Linux {platform.release()}, {platform.machine()}; {len(ABUSES)} cases.\n"
    yield f"| case | what has to hold | {' | '.join(map(str, WAYS))} | gets through without this wall |"
    yield f"| --- | --- |{' --- |' * len(WAYS)} --- |"
    yield from (row(abuse, results) for abuse in ABUSES)


def row(abuse: Abuse, results: Mapping[str, str]) -> str:
    """Return the row of one case."""
    held = (results.get(f"{_HELD}[{way}-{abuse.name}]", "not run") for way in WAYS)
    shown = results.get(f"{_WEAKENED}[{abuse.name}]", "not run")
    words = abuse.weakening.by if shown == "held" else f"{abuse.weakening.by} ({shown})"
    return f"| {abuse.name} | {abuse.must} | {' | '.join(held)} | {words} |"


def results_of(junit: ET.Element) -> dict[str, str]:
    """Return `held`, `FAILED` or the reason for a skip, by test name."""
    found = {}
    for case in junit.iter("testcase"):
        skipped = case.find("skipped")
        failed = case.find("failure") is not None or case.find("error") is not None
        found[case.attrib["name"]] = (
            "FAILED"
            if failed
            else "held"
            if skipped is None
            else f"not here: {skipped.attrib['message'].splitlines()[0]}"
        )
    return found


if __name__ == "__main__":
    for line in page(results_of(ET.parse(sys.argv[1]).getroot())):  # noqa: S314 - our own pytest wrote it
        print(line)  # noqa: T201 - its output
