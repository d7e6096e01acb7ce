"""Tables for people, shared by the views of all nouns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from skillbus.cli.output import clean_line, format_number

if TYPE_CHECKING:
    from skillbus.contracts.retriever.search_explanation import MatchReason, SearchStage

OutcomeT = TypeVar("OutcomeT", bound=StrEnum)

_PROSE: Final = frozenset({"title", "description"})
"""Columns with sentences."""
_PROSE_CELLS: Final = 160
"""Longer ones are cut before the table cuts them to its width. `--json` has all of it."""
_PIPED_CELLS: Final = 80
"""The same in a pipe, which has no width."""
_CUT: Final = "description"
"""Column that is cut to what the others leave, so that each row is one line."""
_CUT_CELLS: Final = 20
"""Least width of the description. With less it is wrapped."""
_COPIED: Final = frozenset({"id", "name", "model", "fingerprint", "act"})
"""Columns with words that people copy."""
_SHARE_CELLS: Final = 12
"""Least width of a column that is wrapped beside them."""
_GAP_CELLS: Final = 3
_PROBLEMS: Final = 50
"""Problems of an import that are shown. `--json` has all of them."""


class _FittingTable(Table):
    """Table that wraps ids and names only if the other columns would have no room."""

    optional: Sequence[str] = ()
    """Headings of the columns that are left out where there is no room, the first one first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        optional = list(self.optional)
        while self._measure_needed() > options.max_width and optional:
            kept = [column for column in self.columns if column.header != optional[0]]
            # Rich pads the last column by its index, so that the columns after one that is left out get a new one.
            self.columns = [replace(column, _index=index) for index, column in enumerate(kept)]
            del optional[0]
        if self._measure_needed() <= options.max_width:
            for column in self.columns:
                column.no_wrap = column.no_wrap or column.header in _COPIED
        for column in self.columns:
            others = [_measure_column(other) for other in self.columns if other is not column]
            left = options.max_width - sum(others) - _GAP_CELLS * len(others)
            if column.header == _CUT and left >= _CUT_CELLS:
                column.no_wrap, column.overflow, column.max_width = True, "ellipsis", left
        yield from super().__rich_console__(console, options)

    def _measure_needed(self) -> int:
        """Return the least width with ids and names on one line."""
        needed = _GAP_CELLS * (len(self.columns) - 1)
        for column in self.columns:
            cells = _measure_column(column)
            needed += cells if column.header in _COPIED or column.no_wrap else min(cells, _SHARE_CELLS)
        return needed


def _measure_column(column: Column) -> int:
    cells = (line for cell in (column.header, *column.cells) for line in str(cell).splitlines())
    return max(map(cell_len, cells), default=0)


def build_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    numbers: Sequence[str] = (),
    whole: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Table:
    """Build a table. `numbers` are right-aligned; they and the columns in `whole` are never wrapped.

    Where the terminal has no room, the columns in `optional` are left out, the first one first. Ids and names are not
    wrapped if that makes room for them. A cell of type str is cleaned and put on one line.
    """
    table = _FittingTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.optional = optional
    for heading in headings:
        is_whole = heading in {*numbers, *whole}
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold", no_wrap=is_whole)
    for row in rows:
        cells = (
            shorten_text(cell) if heading in _PROSE and isinstance(cell, str) else cell
            for heading, cell in zip(headings, row, strict=True)
        )
        table.add_row(*(Text(clean_line(cell)) if isinstance(cell, str) else cell for cell in cells))
    return table


def build_document(value: Mapping[str, object]) -> Table:
    """Build a table of names and values from a JSON object. Nested members are named by their path."""
    return build_table(("name", "value"), list(_flatten("", value)))


def build_import_report(
    noun: str, counts: Mapping[OutcomeT, int], place: str, problems: Sequence[Sequence[str]], summary: str
) -> RenderableType:
    """Build the report of an import: the number of each outcome, then the problems.

    A problem is a tuple of its place, an id, an outcome and a message; `place` is the heading of the first.
    """
    numbers = [(str(outcome), str(number)) for outcome, number in counts.items() if number]
    parts: list[RenderableType] = [build_table(("outcome", noun), numbers, numbers=(noun,))]
    if problems:
        headings = (place, "id", "outcome", "problem")
        parts += [Text(), build_table(headings, problems[:_PROBLEMS], numbers=("line",))]
    if len(problems) > _PROBLEMS:
        parts.append(Text(f"and {len(problems) - _PROBLEMS} more: --json lists all", "dim"))
    return Group(*parts, Text(clean_line(summary), "dim"))


def shorten_text(text: str) -> str:
    """Cut a title or a description to the cells that a table has for it."""
    line = Text(clean_line(text))
    line.truncate(_PROSE_CELLS if sys.stdout.isatty() else _PIPED_CELLS, overflow="ellipsis")
    return line.plain


def format_count(shown: int, total: int, noun: str) -> Text:
    """Return how many of how many rows are shown; `noun` is in the singular."""
    return Text(f"{shown} of {format_number(total, noun)}" if shown < total else format_number(total, noun), "dim")


def format_yes(value: bool) -> str:
    """Return `yes` or `no`."""
    return "yes" if value else "no"


def format_reasons(cosine: float | None, reasons: Sequence[MatchReason]) -> list[str]:
    """Return one line for each reason of a hit. The cosine gets a separate line unless a reason has it."""
    lines = []
    if cosine is not None and not any(reason.side == "dense" for reason in reasons):
        lines.append(f"cosine {cosine:.3f}")
    for reason in reasons:
        measure = f"cosine {reason.score:.3f}" if reason.side == "dense" else f"BM25 {reason.score:.2f}"
        terms = f": {clean_line(', '.join(reason.terms))}" if reason.terms else ""
        parts = f" in {', '.join(reason.parts)}" if reason.parts else ""
        lines.append(f"{reason.side} #{reason.rank}, {measure}{terms}{parts}")
    return lines


def format_fact(name: str, value: str) -> Text:
    """Return a named value as a line below a table."""
    return Text(f"{name}: {clean_line(value)}", "dim")


def format_threshold(threshold: float, below: int, best_score: float | None) -> Text:
    """Return how many candidates were below the threshold of a search."""
    best = "no candidate" if best_score is None else f"best score {best_score:.2f}"
    return format_fact("threshold", f"{threshold:.2f}, {below} candidates below it; {best}")


def format_stages(stages: Iterable[SearchStage], noun: str) -> Text:
    """Return the duration of each stage of a search and the number of candidates after it."""
    lines = []
    for stage in stages:
        left = f" ({format_number(stage.candidates, noun)})" if stage.candidates else ""
        lines.append(f"{stage.name} {stage.took_ms:.1f} ms{left}")
    return format_fact("stages", ", ".join(lines))


def format_search(count: int, model: str | None, took_ms: float, degraded: str | None, share: str = "") -> Text:
    """Return the summary line of a search. `share` follows the number of hits."""
    note = f", degraded: {degraded} only" if degraded else ""
    by = f"by {clean_line(model or 'no model')} in {took_ms:.1f} ms"
    return Text(f"{format_number(count, 'hit')}{share} {by}{note}", "dim")


def _flatten(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _flatten(f"{path}.{name}" if path else str(name), member)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            label, rest = str(number), item
            if isinstance(item, dict) and "name" in item:
                label, rest = str(item["name"]), {key: member for key, member in item.items() if key != "name"}
            yield from _flatten(f"{path}.{label}", rest)
    elif value is None or value in ([], {}):
        yield path, "-"
    elif isinstance(value, bool):
        yield path, format_yes(value)
    else:
        yield path, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
