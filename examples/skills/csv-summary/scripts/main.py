"""Profiles a delimited table given as {"text" | "file", "delimiter"?, "group_by"?, "measure"?}."""

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date

from columns import ROW_FIELDS, Cell, Summary, Table, flat, group, markdown_table, summarize
from skillio import MAX_TEXT_BYTES, Arguments, SkillError, choice_of, run, text_of, text_or_file, write_artifact

DELIMITERS = (",", ";", "\t", "|")
NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?(?:e[+-]?\d+)?|[+-]?\.\d+", re.IGNORECASE)
DATE = re.compile(r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})")
MISSING = frozenset({"", "na", "n/a", "null", "none", "-"})
MAX_CELLS = 2_000_000


def summarize_table(arguments: Arguments) -> dict[str, object]:
    text = text_or_file(arguments)
    csv.field_size_limit(MAX_TEXT_BYTES)  # its default refuses a cell of more than 128 KiB
    delimiter = choice_of(arguments, "delimiter", DELIMITERS, likely_delimiter(text))
    table, ragged = parse(text, delimiter)
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    profiles = [summarize(name, cells) for name, cells in zip(table.header, columns, strict=True)]
    result: Summary = {"rows": len(table.rows), "delimiter": delimiter, "ragged_rows": ragged, "columns": profiles}
    result |= groups_of(table, columns, arguments)
    rows = [list(flat(profile).values()) for profile in profiles]
    return result | {"artifacts": [write_artifact("summary.md", markdown_table(["name", *ROW_FIELDS], rows))]}


def likely_delimiter(text: str) -> str:
    """The one that splits the first lines most often, and each of them alike."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]

    def fit(delimiter: str) -> tuple[int, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        return (widths.count(widths[0]), widths[0]) if widths and widths[0] > 1 else (0, 0)

    return max(DELIMITERS, key=fit)


def parse(text: str, delimiter: str) -> tuple[Table, int]:
    """The table with typed cells, and how many rows are not as wide as the header."""
    try:
        rows = [
            row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(map(str.strip, row))
        ]
    except csv.Error as error:
        raise SkillError(f"the table cannot be read: {error}") from None
    if not rows:
        raise SkillError("the table is empty")
    header, body = named(rows[0]), rows[1:]
    if len(header) * len(body) > MAX_CELLS:
        raise SkillError(f"the table has more than {MAX_CELLS:,} cells; split it")
    ragged = sum(len(row) != len(header) for row in body)
    padded = [(row + [""] * len(header))[: len(header)] for row in body]
    columns = [typed(column) for column in zip(*padded, strict=True)]
    return Table(header, list(zip(*columns, strict=True))), ragged


def named(cells: Sequence[str]) -> list[str]:
    names: list[str] = []
    for position, cell in enumerate(cells, start=1):
        name = " ".join(cell.split()) or f"column {position}"
        names.append(name if name not in names else f"{name} ({position})")
    return names


def typed(column: Sequence[str]) -> list[Cell]:
    """The column in the narrowest type that fits all of it."""
    cells = [cell.strip() for cell in column]
    present = [cell for cell in cells if cell.lower() not in MISSING]
    readers: tuple[Callable[[str], Cell], ...] = (read_number, read_date, read_boolean)
    for read in readers:
        if present and all(read(cell) is not None for cell in present):
            return [None if cell.lower() in MISSING else read(cell) for cell in cells]
    return [None if cell.lower() in MISSING else cell for cell in cells]


def read_number(cell: str) -> Cell:
    if not NUMBER.fullmatch(cell):
        return None
    value = float(cell.replace(",", ""))
    return value if math.isfinite(value) else None


def read_date(cell: str) -> Cell:
    match = DATE.fullmatch(cell)
    with suppress(ValueError):
        return date(int(match[1]), int(match[3]), int(match[4])) if match else None
    return None


def read_boolean(cell: str) -> Cell:
    return {"true": True, "yes": True, "是": True, "false": False, "no": False, "否": False}.get(cell.lower())


def groups_of(table: Table, columns: Sequence[Sequence[Cell]], arguments: Arguments) -> Summary:
    if "group_by" not in arguments and "measure" not in arguments:
        return {}
    by, measure = text_of(arguments, "group_by"), text_of(arguments, "measure")
    for name in (by, measure):
        if name not in table.header:
            raise SkillError(f"there is no column {name!r}; columns: {', '.join(table.header)}")
    positions = [table.header.index(name) for name in (by, measure)]
    return {"groups": group(columns[positions[0]], columns[positions[1]])}


if __name__ == "__main__":
    run(summarize_table)
