"""Tables of knowledge hits and contexts."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.knowledge.view import build_item_table
from skillbus.cli.output import clean_line
from skillbus.contracts.retriever.knowledge_search import ContextBuilt, KnowledgeFound, KnowledgeHit


def render_knowledge_hits(
    found: KnowledgeFound, width: int, *, explain: bool = False, on_lines: bool = False
) -> RenderableType:
    """Render the hits, best first. The reasons stand below the table or, with `on_lines`, in the line of each hit."""
    facts = list(_explain_search(found)) if explain else []
    behind = [Text(_format_behind(found.index_behind))] if found.index_behind else []
    if not found.results:
        return Group(Text("Nothing fits. `--threshold 0` shows the nearest items."), *behind, *facts)
    items = [(hit.item.id, hit.item.type.value, hit.item.scope, hit.item.title) for hit in found.results]
    table = build_item_table(items, "score", [f"{hit.score:.2f}" for hit in found.results], width)
    if explain and on_lines:
        rows = [
            (item_id, kind, f"{hit.score:.2f}", scope or "-", title, "; ".join(_list_reasons(hit)))
            for (item_id, kind, scope, title), hit in zip(items, found.results, strict=True)
        ]
        table = tables.build_table(("id", "type", "score", "scope", "title", "reasons"), rows)
    elif explain:
        reasons = []
        for hit in found.results:
            lines = "".join(f"\n  {clean_line(reason)}" for reason in _list_reasons(hit))
            reasons.append(Text(f"\n{clean_line(hit.item.title)}", "bold").append(lines, "not bold"))
        facts = [*reasons, Text(), *facts]
    return Group(table, tables.format_search(len(items), found.model, found.took_ms, found.degraded), *behind, *facts)


def render_short_hits(found: KnowledgeFound) -> RenderableType:
    """Render the hits without ids."""
    rows = [(hit.item.type.value, f"{hit.score:.2f}", hit.item.scope or "-", hit.item.title) for hit in found.results]
    table = tables.build_table(("type", "score", "scope", "title"), rows, numbers=("score",), whole=("type",))
    return Group(table, tables.format_search(len(rows), found.model, found.took_ms, found.degraded))


def format_context(built: ContextBuilt) -> str:
    """Return the size of a context, and the number of items left out."""
    omitted = built.omitted
    summary = f"{len(built.items)} items, {built.tokens} of {built.budget_tokens} tokens, counted by {built.counted_by}"
    over = f"; {omitted.over_budget} do not fit the budget" if omitted.over_budget else ""
    alike = f"; {omitted.alike} repeat another item" if omitted.alike else ""
    degraded = f"; degraded: {built.degraded} only" if built.degraded else ""
    behind = f"; {_format_behind(built.index_behind)}" if built.index_behind else ""
    return clean_line(f"{summary}{over}{alike}{degraded}{behind}")


def _format_behind(count: int) -> str:
    return f"{count} items of the project are not indexed yet and may be missing here"


def _list_reasons(hit: KnowledgeHit) -> Iterator[str]:
    if hit.scope_match is not None:
        yield f"scope: {hit.scope_match.value}"
    yield from tables.format_reasons(hit.cosine, hit.reasons)
    factors = hit.factors.model_dump() if hit.factors is not None else {}
    if changes := [f"{name} {value:+.2f}" for name, value in factors.items() if value]:
        relevance = f"relevance {hit.relevance:.2f}, " if hit.relevance is not None else ""
        yield f"{relevance}{', '.join(changes)}"
    if not hit.indexed:
        yield "ranked by an older version: this version is not indexed yet"


def _explain_search(found: KnowledgeFound) -> Iterator[Text]:
    how = found.explanation
    if how is None:
        return
    yield tables.format_threshold(how.threshold, how.below_threshold, how.best_score)
    yield tables.format_stages(how.stages, "items")
    if how.not_shown:
        yield tables.format_fact("record", f"{how.not_shown} not visible to you")
    if len(how.projects) > 1:
        yield tables.format_fact("projects", ", ".join(how.projects))
    if how.terms:
        yield tables.format_fact("terms, with translations", ", ".join(how.terms))
