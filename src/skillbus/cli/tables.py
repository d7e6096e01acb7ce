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

    from skillbus.cli.replies import SystemStatus
    from skillbus.contracts.indexer import IndexerStatus, Skill
    from skillbus.contracts.retriever import Reason, Stage, ToolHit, ToolsFound

_DESCRIPTION_CELLS = 160
"""A description is cut here, at three or four lines of a table on a usual terminal; `--json` has all of it."""

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
        table.add_row(*_cells(cells), *([Text(between_reasons.join(_reasons(hit)))] if explain else []))
    return Group(table, Text(_how(found), "dim"), *explained)


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


def rows(headings: Sequence[str], lines: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> Table:
    """A table of plain cells."""
    table = _table(*headings, numbers=numbers)
    for line in lines:
        table.add_row(*_cells(line))
    return table


def document(value: Mapping[str, object]) -> RenderableType:
    """A JSON object as names and values: nested members by their path."""
    return rows(("what", "value"), list(_flat("", value)))


def _table(*headings: str, numbers: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        number = heading in numbers
        table.add_column(heading, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return table


def _cells(cells: Sequence[str]) -> list[Text]:
    return [Text(plain_line(cell)) for cell in cells]


def _cut(text: str) -> str:
    line = Text(plain_line(text))
    line.truncate(_DESCRIPTION_CELLS, overflow="ellipsis")
    return line.plain


def _reasons(hit: ToolHit) -> list[str]:
    is_told = hit.cosine is None or any(reason.side == "dense" for reason in hit.reasons)
    return ([] if is_told else [f"cosine {hit.cosine:.3f}"]) + [_reason(reason) for reason in hit.reasons]


def _reason(reason: Reason) -> str:
    measure = f"cosine {reason.score:.3f}" if reason.side == "dense" else f"BM25 {reason.score:.2f}"
    terms = f": {plain_line(', '.join(reason.terms))}" if reason.terms else ""
    parts = f" in {', '.join(reason.parts)}" if reason.parts else ""
    return f"{reason.side} #{reason.rank}, {measure}{terms}{parts}"


def _explained(found: ToolsFound) -> Iterable[Text]:
    """What the search did, a fact a line."""
    if found.split:
        yield _fact("searched each", " | ".join(found.split))
    how = found.explanation
    if how is None:
        return
    best = "nothing was near" if how.best_score is None else f"the best scores {how.best_score:.2f}"
    yield _fact("threshold", f"{how.threshold:.2f}, {how.below_threshold} candidates below it; {best}")
    yield _fact("stages", ", ".join(map(_stage, how.stages)))
    if how.terms:
        yield _fact("terms, translations included", ", ".join(how.terms))


def _stage(stage: Stage) -> str:
    left = f" ({stage.candidates} tools)" if stage.candidates else ""
    return f"{stage.name} {stage.took_ms:.1f} ms{left}"


def _fact(name: str, fact: str) -> Text:
    return Text(f"{name}: {plain_line(fact)}", "dim")


def _how(found: ToolsFound) -> str:
    model = plain_line(found.model or "no model")
    degraded = f", degraded: {found.degraded} only" if found.degraded else ""
    return f"{len(found.results)} found by {model} in {found.took_ms:.1f} ms{degraded}"


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
