"""How items of knowledge, their versions and their use look to people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.text import plain, plain_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skillbus.cli.client.replies import KnowledgeImported
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

_AROUND: Final = 80
"""Characters of what is the same that are shown beside what differs; `--json` has all."""
_MARKS: Final = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
"""Where there is no colour: as `git diff --word-diff` writes it."""
_STYLES: Final = {"removed": "red strike", "added": "green"}


def items(found: Sequence[KnowledgeSummary], total: int) -> RenderableType:
    """A part of the knowledge base."""
    if not found:
        return Text("No item is like that. `skillbus knowledge add` and `skillbus import knowledge` add some.")
    headings = ("id", "type", "version", "scope", "title")
    lines = [(it.id, _kind(it), str(it.version), it.scope or "-", it.title) for it in found]
    how_many = f"{len(found)} of {total} items" if len(found) < total else f"{total} items"
    return Group(tables.rows(headings, lines, numbers=("version",), whole=("id",)), Text(how_many, "dim"))


def item(found: KnowledgeItem) -> RenderableType:
    """An item: what is said of it, and its content as it is."""
    facts = found.model_dump(mode="json", exclude={"content"})
    said = {name: value for name, value in facts.items() if value not in (None, "", [])}
    return Group(tables.document(said), Text(), Text(plain(found.content)))


def written(found: KnowledgeWritten) -> RenderableType:
    """What became of an item."""
    it = found.item
    how = "as it was" if found.repeated else it.status.value
    later = "" if found.indexed else ", found from the record until it is indexed"
    return Text(plain_line(f"{it.id}: version {it.version}, {how}{later}"))


def versions(found: Sequence[KnowledgeVersion], total: int) -> RenderableType:
    """The versions of an item, the newest first."""
    lines = [
        (str(it.version), it.change.value, f"{it.at:%Y-%m-%d %H:%M:%S}", it.by, it.item.title, it.reason)
        for it in found
    ]
    headings = ("version", "change", "when (UTC)", "by", "title", "reason")
    how_many = f"{len(found)} of {total} versions" if len(found) < total else f"{total} versions"
    return Group(tables.rows(headings, lines, numbers=("version",)), Text(how_many, "dim"))


def diff(found: KnowledgeDiffed, *, coloured: bool) -> RenderableType:
    """What differs, field by field; words that went and came by colour, or between marks."""
    if not found.changes:
        return Text(f"Versions {found.from_version} and {found.to_version} do not differ.")
    parts: list[RenderableType] = []
    for change in found.changes:
        parts += [Text(plain_line(change.field), "bold"), _difference(change, coloured=coloured)]
    return Group(*parts)


def reviewed(found: KnowledgeReviewed) -> RenderableType:
    """What became of each."""
    lines = [
        (it.id, it.status.value if it.ok and it.status else "failed", str(it.version or "-"), it.error or "")
        for it in found.results
    ]
    return tables.rows(("id", "status", "version", "what"), lines, numbers=("version",), whole=("id",))


def usage(found: ItemUsage) -> RenderableType:
    """How an item is used."""
    facts: dict[str, object] = {"id": found.id, "title": found.title}
    facts |= {"shown": found.shown, "applied": found.applied, "helpful": found.helpful, "unhelpful": found.unhelpful}
    facts |= {"helpful of all": _rate(found.rate), "mean position": _position(found.mean_position)}
    facts |= {f"scene {name}": count for name, count in found.scenes.items()}
    last = found.last_used_at
    return tables.document(facts | {"last used": last.isoformat() if last is not None else None})


def stats(found: KnowledgeStats) -> RenderableType:
    """A knowledge base in numbers, and what somebody should look at."""
    numbers: dict[str, object] = {"project": found.project, "items": found.total}
    numbers |= {str(status): count for status, count in found.by_status.items()}
    numbers |= {f"active, {kind}": count for kind, count in found.by_type.items()}
    numbers |= {"active, not indexed yet": found.unindexed, "searches": found.searches, "contexts": found.contexts}
    numbers |= {"helpful of all feedback": _rate(found.feedback)}
    return Group(tables.document(numbers), *_reports(found))


def project(found: KnowledgeProject) -> RenderableType:
    """Whose items a project finds."""
    above = f"and those of {', '.join(found.parents)}" if found.parents else "and no others"
    return Text(plain_line(f"{found.project} finds its own items {above}"))


def imported(report: KnowledgeImported, place: str) -> RenderableType:
    """What became of an import; `place` is what its parts are called: a line, or a file."""
    lines = [
        (it.file or str(it.line), it.external_id or it.id or "-", it.outcome, it.error or "") for it in report.results
    ]
    later = "" if report.indexed or report.dry_run else "; until the index has all of them, the record is searched too"
    said = f"{report.total} items{', nothing was written' if report.dry_run else ''}{later}"
    return tables.outcomes("items", report.counts, (place, lines), said)


def _kind(found: KnowledgeSummary) -> str:
    """Its type, and its status where it is not found."""
    return found.type.value if found.status.value == "active" else f"{found.type.value} ({found.status.value})"


def _reports(found: KnowledgeStats) -> Iterator[RenderableType]:
    reports = (
        ("most used", found.most_used, len(found.most_used)),
        ("never used", found.never_used, found.never_used_count),
        ("stale", found.stale, found.stale_count),
        ("least helpful", found.least_helpful, len(found.least_helpful)),
    )
    for name, listed, count in reports:
        if listed:
            more = f" ({len(listed)} of {count})" if len(listed) < count else ""
            lines = [(it.id, it.title, str(it.shown), str(it.applied), _rate(it.rate) or "-") for it in listed]
            headings = ("id", "title", "shown", "applied", "helpful")
            table = tables.rows(headings, lines, numbers=("shown", "applied"), whole=("id",))
            yield Group(Text(f"\n{name}{more}", "bold"), table)
    if found.unanswered:
        asked = [(it.query, str(it.count), f"{it.last_at:%Y-%m-%d %H:%M}") for it in found.unanswered]
        heading = Text("\nasked in vain", "bold")
        yield Group(heading, tables.rows(("query", "times", "last (UTC)"), asked, numbers=("times",)))


def _difference(change: KnowledgeFieldDiff, *, coloured: bool) -> Text:
    if not change.spans:
        return Text(plain(f"  {_value(change.before)} → {_value(change.after)}"))
    text = Text("  ")
    last = len(change.spans) - 1
    for at, span in enumerate(change.spans):
        text.append_text(_span(span, coloured=coloured, is_first=at == 0, is_last=at == last))
    return text


def _span(span: TextSpan, *, coloured: bool, is_first: bool, is_last: bool) -> Text:
    said = plain(span.text)
    if span.kind == "same":
        return Text(_shortened(said, 0 if is_first else _AROUND, 0 if is_last else _AROUND))
    if coloured:
        return Text(said, _STYLES[span.kind])
    opening, closing = _MARKS[span.kind]
    return Text(f"{opening}{said}{closing}")


def _shortened(text: str, head: int, tail: int) -> str:
    if len(text) <= head + tail + 1:
        return text
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _value(value: object) -> str:
    if value in (None, "", []):
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rate(rate: HelpfulRate | None) -> str | None:
    if rate is None:
        return None
    return f"{rate.share:.0%} of {rate.count} (95 %: {rate.low:.0%} to {rate.high:.0%})"


def _position(mean: float | None) -> str | None:
    return None if mean is None else f"{mean:.1f}"
