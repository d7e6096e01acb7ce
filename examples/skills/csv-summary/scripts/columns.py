"""Statistics of a column of cells, and of a number by group. The same file lies in both table skills."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from skillio import SkillError

Cell = str | int | float | bool | date | None  # datetime is a date
Summary = dict[str, object]

TOP_VALUES = 5
ROW_FIELDS = [
    "kind",
    "count",
    "missing",
    "distinct",
    "errors",
    "min",
    "q1",
    "median",
    "q3",
    "max",
    "mean",
    "stdev",
    "sum",
    "top",
]


@dataclass(frozen=True, slots=True)
class CellError:
    """What a spreadsheet shows where a formula failed, such as #DIV/0!."""

    code: str


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` are as long as `header`; missing cells are None."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell | CellError]]


def summarize(name: str, cells: Iterable[Cell | CellError]) -> Summary:
    every = list(cells)
    present = [cell for cell in every if cell is not None and not isinstance(cell, CellError)]
    errors = sum(isinstance(cell, CellError) for cell in every)
    kind = kind_of(present)
    summary: Summary = {
        "name": name,
        "kind": kind,
        "count": len(present),
        "missing": sum(cell is None for cell in every),
        "distinct": len({(type(cell), cell) for cell in present}),
    }
    summary |= {"errors": errors} if errors else {}
    return summary | details(kind, present)


def kind_of(cells: Sequence[Cell]) -> str:
    kinds = {kind_of_cell(cell) for cell in cells}
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "empty"


def kind_of_cell(cell: Cell) -> str:
    match cell:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case date():
            return "date"
    return "text"


def details(kind: str, cells: Sequence[Cell]) -> Summary:
    match kind:
        case "number":
            return within_range(number_details, numbers_in(cells))
        case "date":
            return date_details([moment(cell) for cell in cells if isinstance(cell, date)])
        case "empty":
            return {}
    counts = Counter(shown(cell) for cell in cells)
    return {"top": [{"value": value, "count": count} for value, count in counts.most_common(TOP_VALUES)]}


def numbers_in(cells: Iterable[Cell | CellError]) -> list[float]:
    return [float(cell) for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]


def within_range(rule: Callable[[Sequence[float]], Summary], numbers: Sequence[float]) -> Summary:
    try:
        return rule(numbers)
    except OverflowError:
        raise SkillError("a column holds numbers too large to add up") from None


def number_details(numbers: Sequence[float]) -> Summary:
    """Quartiles by linear interpolation between the values themselves; the deviation is that of a sample (n - 1)."""
    ordered = sorted(numbers)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    found = {
        "min": ordered[0],
        "q1": quarters[0],
        "median": quarters[1],
        "q3": quarters[2],
        "max": ordered[-1],
        "mean": math.fsum(ordered) / len(ordered),
        "stdev": statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
        "sum": math.fsum(ordered),
    }
    return {key: tidy(value) for key, value in found.items()}


def date_details(moments: Sequence[datetime]) -> Summary:
    first, last = min(moments), max(moments)
    return {"min": shown(first), "max": shown(last), "span_days": (last - first).days}


def moment(day: date) -> datetime:
    return day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)  # noqa: DTZ001 - cells have no zone


def tidy(value: float) -> int | float:
    """Twelve significant digits, so that sums of decimals do not end in ...0000001; whole values as integers."""
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def shown(cell: object) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case int() | float():
            return str(tidy(cell))
        case datetime():
            return cell.date().isoformat() if cell.time() == datetime.min.time() else cell.isoformat(" ")
        case CellError(code=code):
            return code
    return str(cell)


def group(keys: Iterable[Cell | CellError], values: Iterable[Cell | CellError]) -> list[Summary]:
    """Count, sum, mean, min and max of the numbers of each key, the largest sum first."""
    members: dict[str, list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        members.setdefault(shown(key), []).extend(numbers_in([value]))
    groups = [{"key": key, **within_range(group_details, numbers)} for key, numbers in members.items() if numbers]
    return sorted(groups, key=lambda found: -float(str(found["sum"])))


def group_details(numbers: Sequence[float]) -> Summary:
    total = math.fsum(numbers)
    found = {"sum": total, "mean": total / len(numbers), "min": min(numbers), "max": max(numbers)}
    return {"count": len(numbers), **{name: tidy(value) for name, value in found.items()}}


def flat(summary: Mapping[str, object]) -> dict[str, str]:
    """A summary as one row of a table: `top` becomes `value (count); …`."""
    return {field: flat_value(summary.get(field)) for field in ("name", *ROW_FIELDS)}


def flat_value(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(f"{entry['value']} ({entry['count']})" for entry in value)
    return shown(value)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [list(header), ["---"] * len(header), *([shown(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(escaped(cell) for cell in line)} |\n" for line in lines)


def escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")
