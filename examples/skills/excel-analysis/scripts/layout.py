"""Finds the table on a sheet: titles above it, one or more header rows (merged or not), data, a closing total."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from columns import CellError, Table, shown
from skillio import SkillError
from workbook import Merge, Sheet, Value

SEARCHED_ROWS = 20  # a header further down than this must be named with header_row
TOTALS = frozenset({"合计", "总计", "小计", "total", "totals", "sum", "grand total"})


@dataclass(frozen=True, slots=True)
class SheetTable:
    """`header_row` counts from 1; `total_row` is the closing line of sums, taken out of the table."""

    table: Table
    header_row: int
    total_row: Sequence[Value] | None


def find_table(sheet: Sheet, header_row: int | None) -> SheetTable | None:
    """None for an empty sheet."""
    if not sheet.rows:
        return None
    numbers = sorted(sheet.rows)
    filled = {column for row in sheet.rows.values() for column in row}
    columns = range(min(filled), max(filled) + 1)
    if header_row is not None and header_row > numbers[-1]:
        raise SkillError(f"header_row {header_row} is below the last row of sheet {sheet.name!r} ({numbers[-1]})")
    first = header_row or detect_header(sheet, numbers)
    last = header_end(first, sheet.merges)
    data = [[sheet.rows[row].get(column) for column in columns] for row in numbers if row > last]
    total = data.pop() if len(data) > 1 and is_total(data[-1]) else None
    names = [header_name(sheet, column, first, last) for column in columns]
    return SheetTable(Table(unique(names), data), first, total)


def detect_header(sheet: Sheet, numbers: Sequence[int]) -> int:
    """The first row with as many distinct texts as any near the top: title lines hold one, data rows hold numbers."""
    near = [row for row in numbers if row <= numbers[0] + SEARCHED_ROWS][:SEARCHED_ROWS]
    filled = {row: merged_values(sheet, row) for row in near}
    widest = max(len(filled[row]) for row in near)
    for row in near:
        texts = [value for value in filled[row].values() if isinstance(value, str)]
        if len(texts) == len(filled[row]) and len(texts) * 2 > widest and len(set(texts)) > 1:
            return row
    return next((row for row in near if len(filled[row]) * 2 > widest), near[0])


def merged_values(sheet: Sheet, row: int) -> Mapping[int, Value]:
    """The row with the value of a merged range repeated in each of its cells."""
    values = dict(sheet.rows.get(row, {}))
    for merge in sheet.merges:
        if merge.top <= row <= merge.bottom:
            value = sheet.rows.get(merge.top, {}).get(merge.left)
            if value is not None:
                values |= dict.fromkeys(range(merge.left, merge.right + 1), value)
    return values


def header_end(first: int, merges: Sequence[Merge]) -> int:
    """A header cell merged downwards, or one merged sideways over its sub-headers, makes the header taller."""
    touching = [merge for merge in merges if merge.top == first]
    tall = max((merge.bottom for merge in touching), default=first)
    sideways = any(merge.right > merge.left and merge.bottom == first for merge in touching)
    return max(tall, first + 1) if sideways else tall


def header_name(sheet: Sheet, column: int, first: int, last: int) -> str:
    parts = [shown(merged_values(sheet, row).get(column)) for row in range(first, last + 1)]
    distinct = list(dict.fromkeys(part.replace("\n", " ") for part in parts if part))
    return " / ".join(distinct) or f"column {column_letters(column)}"


def column_letters(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result


def is_total(row: Sequence[Value]) -> bool:
    first = next((cell for cell in row if cell is not None), None)
    return not isinstance(first, CellError) and shown(first).strip(" :：").lower() in TOTALS
