"""Skip policy: in CI a test may be skipped only for a reason that allowed_skips.toml lists.

A test that is skipped because a tool is missing looks like a test that passed. `CI=true` makes any other skip an error;
on a contributor's machine it is a line in the summary.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

_FILE: Final = Path(__file__).with_name("allowed_skips.toml")


@dataclass(frozen=True, slots=True)
class AllowedSkip:
    """A skip that CI accepts."""

    tests: str
    """Glob on the test's node id."""
    reason: str
    """Regular expression that the skip's reason matches from its start."""


def load_allowed_skips(file: Path = _FILE) -> Sequence[AllowedSkip]:
    """Return the committed list."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["skip"]
    return [AllowedSkip(tests=row["tests"], reason=row["reason"]) for row in rows]


def is_allowed(test: str, reason: str, allowed: Sequence[AllowedSkip]) -> bool:
    """Return True if the list has this test and this reason."""
    return any(fnmatchcase(test, skip.tests) and re.match(skip.reason, reason) for skip in allowed)


def find_unlisted_skips(reporter: TerminalReporter) -> Iterator[str]:
    """Yield one line for each skipped test that the list does not allow."""
    allowed = load_allowed_skips()
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not is_allowed(report.nodeid, reason, allowed):
            yield f"{report.nodeid}: {reason}"


def check_skips(session: pytest.Session) -> None:
    """Fail a session in CI that skipped a test for a reason that is not listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None or hasattr(session.config, "workerinput"):
        return
    unlisted = list(find_unlisted_skips(reporter))
    for line in unlisted:
        reporter.ensure_newline()
        reporter.write_line(f"not an allowed skip (tests/allowed_skips.toml): {line}", red=True)
    if unlisted and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
