"""Builder of JUnit reports of a small project, with the texts that pytest writes."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from xml.sax.saxutils import escape, quoteattr

from skillbus.learning.test_runs.joining import ListedRun
from skillbus.learning.test_runs.junit import read_junit
from skillbus.learning.test_runs.learning import RunFindings, learn_from_runs
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestRun

CASES = tuple(f"test_case_{number}" for number in range(30))


def write_python_failure(error: str, place: str, test: str, *, cause: str = "") -> str:
    """Return pytest's text of a failure that is raised at `file.py:function`; `cause` is an inner exception."""
    file, _, function = place.partition(":")
    kind = error.partition(":")[0].rpartition(".")[2]
    frames = f"    def {test}():\n>       call()\n\ntests/test_shop.py:12: \n_ _ _ _ _ _\n\n    def {function}():\n"
    raised = f">       raise\nE       {error}\n\nsrc/shop/{file}:40: {kind}"
    if cause:
        inner = f">       parse()\nE       {cause}\n\nsrc/shop/{file}:36: {cause.partition(':')[0]}"
        chain = "\n\nThe above exception was the direct cause of the following exception:\n\n"
        return f"    def {function}():\n{inner}{chain}{frames}{raised}"
    return frames + raised


def write_assertion(check: str, errors: Sequence[str], test: str, line: int = 20) -> str:
    """Return pytest's text of a failed assertion in a test."""
    said = "\n".join(f"E       {error}" for error in errors)
    return f"    def {test}():\n>       {check}\n{said}\n\ntests/test_shop.py:{line}: AssertionError"


def write_junit(
    failures: Mapping[str, str], *, skipped: Mapping[str, str] | None = None, cases: Sequence[str] = CASES
) -> bytes:
    """Return a JUnit report of pytest in which these tests failed, with their texts."""
    parts = []
    for case in dict.fromkeys((*cases, *failures)):
        inner = ""
        if case in failures:
            first = next((line[1:].strip() for line in failures[case].splitlines() if line.startswith("E ")), "failed")
            inner = f"<failure message={quoteattr(first)}>{escape(failures[case])}</failure>"
        elif case in (skipped or {}):
            inner = f"<skipped type='pytest.skip' message={quoteattr((skipped or {})[case])}>skipped</skipped>"
        parts.append(f'<testcase classname="tests.test_shop" name={quoteattr(case)} time="0.1">{inner}</testcase>')
    suite = f'<testsuite name="pytest" timestamp="2026-01-01T00:00:00">{"".join(parts)}</testsuite>'
    return f"<?xml version='1.0' encoding='utf-8'?><testsuites>{suite}</testsuites>".encode()


def read_run(report: bytes, file: str = "run01.junit.xml") -> TestRun:
    """Return the run of a JUnit report."""
    return read_junit(file, BytesIO(report))


def learn_from_reports(*reports: tuple[str, bytes]) -> RunFindings:
    """Return the findings about reports, given with their commits in the order of time."""
    runs = [read_run(report, f"run{place:02}.junit.xml") for place, (_, report) in enumerate(reports)]
    listed = [
        ListedRun(run=f"run{place:02}", commit=commit, started=f"2026-01-{place + 1:02}T08:00:00Z")
        for place, (commit, _) in enumerate(reports)
    ]
    return learn_from_runs(runs, TestSettings(), listed)
