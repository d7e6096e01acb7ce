"""Traceability: each row of the specifications in scenarios.toml, with the tests that carry its marker.

A test names its row with `@pytest.mark.spec("knowledge-base.md § 指定范围检索")`.
Run this file to write docs/traceability.md.
"""

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "traceability.md"
_SCENARIOS: Final = Path(__file__).with_name("scenarios.toml")
_INTRODUCTION: Final = """# Traceability

This page lists every scenario, test point and component of the five specifications, and the tests that prove it.
It is generated from `tests/architecture/scenarios.toml` and the `spec` markers of the tests: change those, then run
`make documents`.
"""


@dataclass(frozen=True, slots=True)
class SpecRow:
    """A row of a specification."""

    spec: str
    title: str
    kind: str
    """`scenario`, `test point` or `component`."""
    status: str
    """`covered`, `different` or `to do`."""
    note: str
    """The ADR, issue, reason or benchmark that the status refers to; may be empty."""

    @property
    def marker(self) -> str:
        """Argument of the marker on its tests."""
        return f"{self.spec} § {self.title}"


def load_rows(file: Path = _SCENARIOS) -> Sequence[SpecRow]:
    """Return the rows in the order of the file."""
    return [_parse_row(row) for row in tomllib.loads(file.read_text(encoding="utf-8"))["row"]]


def _parse_row(row: Mapping[str, str | int]) -> SpecRow:
    notes = {
        "adr": "ADR {:04}",
        "issue": "issue “{}”",
        "reason": "{}",
        "benchmark": "measured by `benchmarks/{}.py`",
    }
    note = "; ".join(text.format(row[key]) for key, text in notes.items() if key in row)
    return SpecRow(str(row["spec"]), str(row["title"]), str(row["kind"]), str(row["status"]), note)


def find_markers(tests: Path = ROOT / "tests") -> Mapping[str, Sequence[str]]:
    """Map each marker's argument to the tests that carry it, as `path::name`."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(tests.rglob("test_*.py")):
        for name, marker in _markers_in(file.read_text(encoding="utf-8")):
            found[marker].append(f"{file.relative_to(ROOT).as_posix()}::{name}")
    return found


def _markers_in(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.spec":
                yield node.name, str(ast.literal_eval(decorator.args[0]))


def render_page(rows: Sequence[SpecRow], markers: Mapping[str, Sequence[str]]) -> str:
    """Return docs/traceability.md."""
    parts = [_INTRODUCTION, _render_summary(rows)]
    for spec, group in groupby(rows, key=lambda row: row.spec):
        parts.append(f"## {spec}\n\n| kind | title | status | tests |\n| --- | --- | --- | --- |")
        parts[-1] += "".join(_render_row(row, markers.get(row.marker, ())) for row in group) + "\n"
    return "\n".join(parts)


def _render_summary(rows: Sequence[SpecRow]) -> str:
    lines = ["| specification | rows | covered | different | to do |", "| --- | --- | --- | --- | --- |"]
    for name, group in [
        *((spec, list(of_spec)) for spec, of_spec in groupby(rows, key=lambda row: row.spec)),
        ("all", rows),
    ]:
        counts = Counter(row.status for row in group)
        lines.append(f"| {name} | {len(group)} | {counts['covered']} | {counts['different']} | {counts['to do']} |")
    return "\n".join(lines) + "\n"


def _render_row(row: SpecRow, tests: Sequence[str]) -> str:
    status = f"{row.status}: {row.note}" if row.note else row.status
    cited = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
    return f"\n| {row.kind} | {row.title.replace('|', '&#124;')} | {status} | {cited} |"


if __name__ == "__main__":
    PAGE.write_text(render_page(load_rows(), find_markers()), encoding="utf-8")
