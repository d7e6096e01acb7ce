"""Tables of knowledge items, their versions and their usage, and of hits and contexts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.errors import name_commands
from skillbus.cli.output import clean_line, clean_text, format_number
from skillbus.contracts.learner.knowledge import KnowledgeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillbus.contracts.learner.items import KnowledgeSummary, KnowledgeWritten
    from skillbus.contracts.learner.knowledge import KnowledgeItem
    from skillbus.contracts.learner.projects import KnowledgeProject
    from skillbus.contracts.learner.usage import HelpfulRate, ItemUsage, KnowledgeStats
    from skillbus.contracts.learner.versions import (
        KnowledgeDiffed,
        KnowledgeFieldDiff,
        KnowledgeReviewed,
        KnowledgeVersion,
        TextSpan,
    )
    from skillbus.contracts.retriever.knowledge_search import ContextBuilt, KnowledgeFound, KnowledgeHit

_CONTEXT_CHARACTERS: Final = 80
"""Unchanged characters that are shown on each side of a difference. `--json` has the whole text."""
_MARKS: Final = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
"""Marks where there is no colour, as `git diff --word-diff` writes them."""
_WIDE_CELLS: Final = 120
"""Width from which each field of an item has a column."""
_STYLES: Final = {"removed": "red strike", "added": "green"}


def build_item_table(
    items: Sequence[tuple[str, str, str, str]], heading: str, numbers: Sequence[str], width: int
) -> Table:
    """Build a table of items, each with its id, type, scope and title, and a number.

    On a narrow terminal, title, type and scope share a column: ids alone take 36 cells.
    """
    if width >= _WIDE_CELLS:
        rows = [
            (item_id, kind, number, scope or "-", title)
            for (item_id, kind, scope, title), number in zip(items, numbers, strict=True)
        ]
        headings = ("id", "type", heading, "scope", "title")
        return tables.build_table(headings, rows, numbers=(heading,), whole=("id", "type"))
    narrow = [
        (item_id, number, Text(clean_line(title)).append(f"\n{clean_line(f'{kind} {scope}')}", "dim"))
        for (item_id, kind, scope, title), number in zip(items, numbers, strict=True)
    ]
    return tables.build_table(("id", heading, "item"), narrow, numbers=(heading,), whole=("id",))


def render_items(found: Sequence[KnowledgeSummary], total: int, width: int) -> RenderableType:
    """Render a part of the knowledge base."""
    if not found:
        return Text("No item matches. `skillbus knowledge add` and `skillbus knowledge import` add items.")
    items = []
    for it in found:
        status = "" if it.status is KnowledgeStatus.ACTIVE else f" ({it.status.value})"
        items.append((it.id, f"{it.type}{status}", it.scope, it.title))
    table = build_item_table(items, "version", [str(it.version) for it in found], width)
    return Group(table, tables.format_count(len(found), total, "item"))


def render_knowledge_hits(
    found: KnowledgeFound, width: int, *, explain: bool = False, on_lines: bool = False
) -> RenderableType:
    """Render the hits, best first. The reasons stand below the table or, with `on_lines`, in the line of each hit."""
    facts = list(_explain_search(found)) if explain else []
    behind = [Text(_format_behind(found.index_behind))] if found.index_behind else []
    if not found.results:
        return Group(Text("Nothing fits. `--threshold 0` shows the nearest items."), *behind, *facts)
    items = [(hit.item.id, hit.item.type, hit.item.scope, hit.item.title) for hit in found.results]
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
    rows = [(hit.item.type, f"{hit.score:.2f}", hit.item.scope or "-", hit.item.title) for hit in found.results]
    table = tables.build_table(("type", "score", "scope", "title"), rows, numbers=("score",), whole=("type",))
    return Group(table, tables.format_search(len(rows), found.model, found.took_ms, found.degraded))


def format_context(built: ContextBuilt) -> str:
    """Return the size of a context, and the number of items left out."""
    omitted = built.omitted
    size = f"{built.tokens} of {built.budget_tokens} tokens, counted by {built.counted_by}"
    summary = f"{format_number(len(built.items), 'item')}, {size}"
    over = f"; {omitted.over_budget} do not fit the budget" if omitted.over_budget else ""
    alike = f"; {omitted.alike} repeat another item" if omitted.alike else ""
    degraded = f"; degraded: {built.degraded} only" if built.degraded else ""
    behind = f"; {_format_behind(built.index_behind)}" if built.index_behind else ""
    needs = f"; the first item needs {built.first_item_tokens} tokens to be whole" if built.first_item_tokens else ""
    return clean_line(f"{summary}{over}{needs}{alike}{degraded}{behind}")


def render_item(found: KnowledgeItem) -> RenderableType:
    """Render an item: its fields, then its content."""
    fields = found.model_dump(mode="json", exclude={"content"})
    given = {name: value for name, value in fields.items() if value not in (None, "", [])}
    return Group(tables.build_document(given), Text(), Text(clean_text(found.content)))


def format_written(found: KnowledgeWritten) -> str:
    """Return the outcome of a write."""
    outcome = "unchanged" if found.repeated else found.item.status.value
    later = "" if found.indexed else ", not indexed yet"
    return clean_line(f"{found.item.id}: version {found.item.version}, {outcome}{later}")


def render_versions(found: Sequence[KnowledgeVersion], total: int) -> RenderableType:
    """Render the versions of an item, newest first."""
    rows = [
        (str(it.version), it.change.value, f"{it.at:%Y-%m-%d %H:%M:%S}", it.by, it.item.title, it.reason)
        for it in found
    ]
    headings = ("version", "change", "time (UTC)", "by", "title", "reason")
    table = tables.build_table(headings, rows, numbers=("version",))
    return Group(table, tables.format_count(len(found), total, "version"))


def render_diff(found: KnowledgeDiffed, *, coloured: bool) -> RenderableType:
    """Render the differences field by field. Removed and added words are coloured, or stand between marks."""
    if not found.changes:
        return Text(f"Versions {found.from_version} and {found.to_version} do not differ.")
    parts: list[RenderableType] = []
    for change in found.changes:
        parts += [Text(clean_line(change.field), "bold"), _render_change(change, coloured=coloured)]
    return Group(*parts)


def render_reviewed(found: KnowledgeReviewed) -> RenderableType:
    """Render the outcome of a review for each item."""
    rows = [
        (
            it.id,
            it.status.value if it.ok and it.status else "failed",
            str(it.version or "-"),
            _explain_failure(it.error),
        )
        for it in found.results
    ]
    return tables.build_table(("id", "status", "version", "problem"), rows, numbers=("version",), whole=("id",))


def _explain_failure(error: str | None) -> str:
    return name_commands(error or "").replace("`other`", "`--other`")


def render_usage(found: ItemUsage) -> RenderableType:
    """Render the usage of an item."""
    facts: dict[str, object] = {"id": found.id, "title": found.title}
    facts |= {"shown": found.shown, "applied": found.applied, "helpful": found.helpful, "unhelpful": found.unhelpful}
    facts["share of helpful ratings"] = _format_rate(found.rate)
    facts["mean position"] = None if found.mean_position is None else f"{found.mean_position:.1f}"
    facts |= {f"scene {name}": count for name, count in found.scenes.items()}
    facts["last used"] = None if found.last_used_at is None else found.last_used_at.isoformat()
    return tables.build_document(facts)


def render_stats(found: KnowledgeStats) -> RenderableType:
    """Render the counts of a knowledge base, and its reports."""
    counts: dict[str, object] = {"project": found.project, "items": found.total}
    counts |= {str(status): count for status, count in found.by_status.items()}
    counts |= {f"active, {kind}": count for kind, count in found.by_type.items()}
    counts |= {"active, not indexed yet": found.unindexed, "searches": found.searches, "contexts": found.contexts}
    counts["share of helpful ratings"] = _format_rate(found.feedback)
    parts: list[RenderableType] = [tables.build_document(counts)]
    reports = (
        ("most used", found.most_used, len(found.most_used)),
        ("never used", found.never_used, found.never_used_count),
        ("stale", found.stale, found.stale_count),
        ("least helpful", found.least_helpful, len(found.least_helpful)),
    )
    for name, listed, count in reports:
        if listed:
            more = f" ({len(listed)} of {count})" if len(listed) < count else ""
            rows = [(it.id, it.title, str(it.shown), str(it.applied), _format_rate(it.rate) or "-") for it in listed]
            headings = ("id", "title", "shown", "applied", "helpful")
            table = tables.build_table(headings, rows, numbers=("shown", "applied"), whole=("id",))
            parts += [Text(f"\n{name}{more}", "bold"), table]
    if found.unanswered:
        queries = [(it.query, str(it.count), f"{it.last_at:%Y-%m-%d %H:%M}") for it in found.unanswered]
        table = tables.build_table(("query", "times", "last (UTC)"), queries, numbers=("times",))
        parts += [Text("\nqueries without hits", "bold"), table]
    return Group(*parts)


def format_project(found: KnowledgeProject) -> str:
    """Return the projects that a project finds items of."""
    parents = f"and those of {', '.join(found.parents)}" if found.parents else "only"
    return clean_line(f"{found.project} finds its own items {parents}")


def _render_change(change: KnowledgeFieldDiff, *, coloured: bool) -> Text:
    if not change.spans:
        return Text(clean_text(f"  {_format_value(change.before)} → {_format_value(change.after)}"))
    text = Text("  ")
    last = len(change.spans) - 1
    for at, span in enumerate(change.spans):
        head, tail = (0 if at == 0 else _CONTEXT_CHARACTERS), (0 if at == last else _CONTEXT_CHARACTERS)
        text.append_text(_render_span(span, head, tail, coloured=coloured))
    return text


def _render_span(span: TextSpan, head: int, tail: int, *, coloured: bool) -> Text:
    """Render a span. Of an unchanged one, `head` and `tail` are the characters that are shown."""
    said = clean_text(span.text)
    if span.kind == "same":
        is_short = len(said) <= head + tail + 1
        return Text(said if is_short else f"{said[:head]}…{said[len(said) - tail :]}")
    if coloured:
        return Text(said, _STYLES[span.kind])
    opening, closing = _MARKS[span.kind]
    return Text(f"{opening}{said}{closing}")


def _format_value(value: object) -> str:
    if value in (None, "", []):
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_rate(rate: HelpfulRate | None) -> str | None:
    return None if rate is None else f"{rate.share:.0%} of {rate.count} (95 %: {rate.low:.0%} to {rate.high:.0%})"


def _format_behind(count: int) -> str:
    return f"not indexed yet, and perhaps missing here: {format_number(count, 'item')} of the project"


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
    yield tables.format_stages(how.stages, "item")
    if how.not_shown:
        yield tables.format_fact("record", f"{how.not_shown} not visible to you")
    if len(how.projects) > 1:
        yield tables.format_fact("projects", ", ".join(how.projects))
    if how.terms:
        yield tables.format_fact("terms, with translations", ", ".join(how.terms))
