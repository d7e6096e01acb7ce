"""How results look to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from skillbus.cli.text import plain_line, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skillbus.cli.client.replies import SystemStatus
    from skillbus.contracts.indexer.skill_record import Skill
    from skillbus.contracts.indexer.skills import IndexerStatus
    from skillbus.contracts.retriever.tool_search import MatchReason, SearchStage, ToolsFound

_DESCRIPTION_CELLS = 160
"""A description is cut here, at three or four lines of a table on a usual terminal; `--json` has all of it."""
_PROBLEMS: Final = 50
"""Lines of an import that are shown; `--json` has them all."""

_COUNTS: Final = {
    "skills": "skills, all projects",
    "tools": "tools besides skills, all projects",
    "waiting": "skills waiting to be indexed, all projects",
    "points": "points in the vector store, all projects",
}


def hits(found: ToolsFound, *, explain: bool, between_reasons: str = "\n") -> RenderableType:
    """The tools that fit, best first."""
    explained = _explained(found) if explain else ()
    if not found.results:
        return Group(Text("Nothing fits. `--threshold 0` shows what is nearest."), *explained)
    headings = ("id", "type", "score", "description") + (("reasons",) if explain else ())
    table = _table(*headings, numbers=("score",))
    for hit in found.results:
        cells = [hit.id, hit.tool_type.value, f"{hit.score:.2f}", _cut(hit.description)]
        reasons = between_reasons.join(reasons_of(hit.cosine, hit.reasons))
        table.add_row(*_cells(cells), *([Text(reasons)] if explain else []))
    how = found_by(len(found.results), found.model, found.took_ms, found.degraded)
    return Group(table, how, *explained)


def skills(found: Sequence[Skill]) -> RenderableType:
    """The catalogue."""
    if not found:
        return Text("No skill is installed. `skillbus install PATH` adds one.")
    table = _table("name", "version", "indexed", "size", "description", numbers=("size",))
    for skill in found:
        indexed = ("yes" if skill.indexed else "waiting") if skill.enabled else "disabled"
        cells = [skill.name, skill.version or "-", indexed, size(skill.size_bytes), _cut(skill.description)]
        table.add_row(*_cells(cells))
    return Group(table, Text(f"{len(found)} skills", "dim"))


def services(status: SystemStatus) -> RenderableType:
    """How every service is."""
    lines = [(check.name, "yes" if check.ready else "no", check.detail) for check in status.services]
    return rows(("service", "ready", "detail"), lines)


def held(status: IndexerStatus) -> RenderableType:
    """What the indexer holds: its counts are of all projects, where `list` shows one."""
    facts = status.model_dump(mode="json")
    return document({_COUNTS.get(name, name): fact for name, fact in facts.items()})


def rows(
    headings: Sequence[str],
    lines: Iterable[Sequence[str]],
    numbers: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Table:
    """A table of plain cells; `whole` columns are never folded."""
    table = _table(*headings, numbers=numbers, whole=whole)
    for line in lines:
        table.add_row(*_cells(line))
    return table


def outcomes(
    what: str, counts: Mapping[str, int], problems: tuple[str, Sequence[Sequence[str]]], whole: str
) -> RenderableType:
    """What became of an import: how many of each outcome, and what somebody should look at.

    `problems` is what places are called, and a place, an id, an outcome and what is wrong, each.
    """
    numbers = [(outcome, str(number)) for outcome, number in counts.items() if number]
    parts: list[RenderableType] = [rows(("outcome", what), numbers, numbers=(what,))]
    place, lines = problems
    if lines:
        parts += [Text(), rows((place, "id", "outcome", "what"), lines[:_PROBLEMS], numbers=("line",))]
    if len(lines) > _PROBLEMS:
        parts.append(Text(f"and {len(lines) - _PROBLEMS} more: --json has all", "dim"))
    return Group(*parts, Text(plain_line(whole), "dim"))


def document(value: Mapping[str, object]) -> RenderableType:
    """A JSON object as names and values: nested members by their path."""
    return rows(("what", "value"), list(_flat("", value)))


def reasons_of(cosine: float | None, reasons: Sequence[MatchReason]) -> list[str]:
    """Why something was found, a line a side."""
    is_told = cosine is None or any(reason.side == "dense" for reason in reasons)
    return ([] if is_told else [f"cosine {cosine:.3f}"]) + [_reason(reason) for reason in reasons]


def threshold_of(threshold: float, below: int, best_score: float | None) -> Text:
    """What the threshold of a search left out."""
    best = "nothing was near" if best_score is None else f"the best scores {best_score:.2f}"
    return fact("threshold", f"{threshold:.2f}, {below} candidates below it; {best}")


def stages_of(stages: Iterable[SearchStage], what: str) -> Text:
    """The steps of a search, and how much of `what` came out of each."""
    return fact("stages", ", ".join(_stage(stage, what) for stage in stages))


def fact(name: str, said: str) -> Text:
    """A remark below a table."""
    return Text(f"{name}: {plain_line(said)}", "dim")


def found_by(count: int, model: str | None, took_ms: float, degraded: str | None) -> Text:
    """How a search was answered."""
    without = f", degraded: {degraded} only" if degraded else ""
    return Text(f"{count} found by {plain_line(model or 'no model')} in {took_ms:.1f} ms{without}", "dim")


def _table(*headings: str, numbers: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        number = heading in numbers
        is_whole = number or heading in whole
        table.add_column(heading, justify="right" if number else "left", overflow="fold", no_wrap=is_whole)
    return table


def _cells(cells: Sequence[str]) -> list[Text]:
    return [Text(plain_line(cell)) for cell in cells]


def _cut(text: str) -> str:
    line = Text(plain_line(text))
    line.truncate(_DESCRIPTION_CELLS, overflow="ellipsis")
    return line.plain


def _reason(reason: MatchReason) -> str:
    measure = f"cosine {reason.score:.3f}" if reason.side == "dense" else f"BM25 {reason.score:.2f}"
    terms = f": {plain_line(', '.join(reason.terms))}" if reason.terms else ""
    parts = f" in {', '.join(reason.parts)}" if reason.parts else ""
    return f"{reason.side} #{reason.rank}, {measure}{terms}{parts}"


def _explained(found: ToolsFound) -> Iterable[Text]:
    """What the search did, a fact a line."""
    if found.split:
        yield fact("searched each", " | ".join(found.split))
    how = found.explanation
    if how is None:
        return
    yield threshold_of(how.threshold, how.below_threshold, how.best_score)
    yield stages_of(how.stages, "tools")
    if how.terms:
        yield fact("terms, translations included", ", ".join(how.terms))


def _stage(stage: SearchStage, what: str) -> str:
    left = f" ({stage.candidates} {what})" if stage.candidates else ""
    return f"{stage.name} {stage.took_ms:.1f} ms{left}"


def _flat(path: str, value: object) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _flat(f"{path}.{name}" if path else str(name), member)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            label = str(item["name"]) if isinstance(item, dict) and "name" in item else str(number)
            rest = {key: member for key, member in item.items() if key != "name"} if isinstance(item, dict) else item
            yield from _flat(f"{path}.{label}", rest)
    else:
        yield path, _scalar(value)


def _scalar(value: object) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
