"""Each finding in docs/security.md names tests that exist."""

import re

from .tree import ROOT

_ROW = re.compile(r"^\| (?P<finding>[A-Z].*?) \| .* \| (?P<tests>`tests/.*`) \|$")


def _findings() -> dict[str, list[str]]:
    """Return the named tests of each finding; `::name` is a test of the file before it."""
    _, _, table = (ROOT / "docs/security.md").read_text(encoding="utf-8").partition("## Findings and their tests")
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    findings = dict[str, list[str]]()
    for row in rows:
        parsed = _ROW.match(row)
        assert parsed, f"a finding, what stops it, tests: {row}"
        findings[parsed["finding"]] = re.findall(r"`([^`]+)`", parsed["tests"])
    return findings


def test_every_finding_names_tests_that_exist() -> None:
    findings = _findings()
    assert len(findings) > 10
    for finding, names in findings.items():
        file = ""
        for name in names:
            path, _, function = name.partition("::")
            file = path or file
            assert (ROOT / file).exists(), (finding, file)
            if function:
                assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), (finding, name)
