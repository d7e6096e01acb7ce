"""Tables of knowledge items, their versions and their usage."""

import json
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line, clean_text
from skillbus.contracts.learner.items import KnowledgeSummary, KnowledgeWritten
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.projects import KnowledgeProject
from skillbus.contracts.learner.usage import HelpfulRate, ItemUsage, KnowledgeStats
from skillbus.contracts.learner.versions import (
    KnowledgeDiffed,
    KnowledgeFieldDiff,
    KnowledgeReviewed,
    KnowledgeVersion,
    TextSpan,
)

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
        return Text("No item matches. `skillbus knowledge add` and `skillbus import knowledge` add items.")
    items = []
    for it in found:
        status = "" if it.status is KnowledgeStatus.ACTIVE else f" ({it.status.value})"
        items.append((it.id, f"{it.type.value}{status}", it.scope, it.title))
    table = build_item_table(items, "version", [str(it.version) for it in found], width)
    return Group(table, tables.format_count(len(found), total, "items"))


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
    return Group(table, tables.format_count(len(found), total, "versions"))


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
        (it.id, it.status.value if it.ok and it.status else "failed", str(it.version or "-"), it.error or "")
        for it in found.results
    ]
    return tables.build_table(("id", "status", "version", "problem"), rows, numbers=("version",), whole=("id",))


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
    """Return the projects whose items a project finds."""
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
