"""How the answers of a search of knowledge look to people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.text import plain_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skillbus.contracts.retriever.knowledge_search import ContextBuilt, KnowledgeFound, KnowledgeHit


def hits(found: KnowledgeFound, *, explain: bool = False, on_lines: bool = False) -> RenderableType:
    """The items that fit, best first. Why is told below them, or, `on_lines`, behind each on its line."""
    explained = list(_explained(found)) if explain else []
    if not found.results:
        return Group(Text("Nothing fits. `--threshold 0` shows what is nearest."), *_tell_behind(found), *explained)
    how = tables.found_by(len(found.results), found.model, found.took_ms, found.degraded)
    headings: tuple[str, ...] = ("id", "type", "score", "scope", "title")
    lines = [_hit(hit) for hit in found.results]
    if explain and on_lines:
        headings += ("reasons",)
        lines = [(*line, "; ".join(_reasons(hit))) for line, hit in zip(lines, found.results, strict=True)]
    below = [*map(_why, found.results), Text()] if explain and not on_lines else []
    return Group(
        tables.rows(headings, lines, numbers=("score",), whole=("id",)), how, *_tell_behind(found), *below, *explained
    )


def short(found: KnowledgeFound) -> RenderableType:
    """The same without ids."""
    lines = [(hit.item.type.value, f"{hit.score:.2f}", hit.item.scope or "-", hit.item.title) for hit in found.results]
    how = tables.found_by(len(found.results), found.model, found.took_ms, found.degraded)
    return Group(tables.rows(("type", "score", "scope", "title"), lines, numbers=("score",)), how)


def how_built(built: ContextBuilt) -> str:
    """A context in a line."""
    left_out = built.omitted
    said = f"{len(built.items)} items, {built.tokens} of {built.budget_tokens} tokens, counted by {built.counted_by}"
    over = f"; {left_out.over_budget} did not fit the budget" if left_out.over_budget else ""
    alike = f"; {left_out.alike} say what another one says" if left_out.alike else ""
    degraded = f"; degraded: {built.degraded} only" if built.degraded else ""
    behind = f"; {built.index_behind} items of the project are not indexed yet" if built.index_behind else ""
    return plain_line(f"{said}{over}{alike}{degraded}{behind}")


def _tell_behind(found: KnowledgeFound) -> Iterator[Text]:
    if found.index_behind:
        yield Text(f"{found.index_behind} items of the project are not indexed yet: this search may miss them.")


def _hit(hit: KnowledgeHit) -> tuple[str, ...]:
    item = hit.item
    return item.id, item.type.value, f"{hit.score:.2f}", item.scope or "-", item.title


def _why(hit: KnowledgeHit) -> Text:
    title = Text(f"\n{plain_line(hit.item.title)}", "bold")
    return title.append("".join(f"\n  {plain_line(reason)}" for reason in _reasons(hit)), "not bold")


def _reasons(hit: KnowledgeHit) -> Iterator[str]:
    if hit.scope_match is not None:
        yield f"scope: {hit.scope_match.value}"
    yield from tables.reasons_of(hit.cosine, hit.reasons)
    moved = hit.factors.model_dump() if hit.factors is not None else {}
    if said := [f"{name} {value:+.2f}" for name, value in moved.items() if value]:
        before = f"{hit.relevance:.2f} before " if hit.relevance is not None else ""
        yield f"{before}{', '.join(said)}"
    if not hit.indexed:
        yield "ranked by an older version: the index does not have this one yet"


def _explained(found: KnowledgeFound) -> Iterator[Text]:
    """What the search did, a fact a line."""
    how = found.explanation
    if how is None:
        return
    yield tables.threshold_of(how.threshold, how.below_threshold, how.best_score)
    yield tables.stages_of(how.stages, "items")
    if how.not_shown:
        yield tables.fact("record", f"{how.not_shown} not shown")
    if len(how.projects) > 1:
        yield tables.fact("projects", ", ".join(how.projects))
    if how.terms:
        yield tables.fact("terms, translations included", ", ".join(how.terms))
