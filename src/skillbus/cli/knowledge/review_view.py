"""Tables of proposals, and a proposal with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line, clean_text, format_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillbus.contracts.learner.learned import EvidenceQuote
    from skillbus.contracts.learner.proposals import WaitingProposal


def render_proposals(found: Sequence[WaitingProposal], total: int, *, is_filtered: bool = False) -> RenderableType:
    """Render the proposals that wait for review. `is_filtered`: others may wait, too."""
    if not found and is_filtered:
        return Text("No such proposal waits. `skillbus knowledge proposals` lists those that do.")
    if not found:
        return Text("Nothing waits for review. `skillbus learn` learns from logs and test runs.")
    rows = [(one.item.id, one.proposal.kind.value, one.proposal.learned.kind.value, _mark_title(one)) for one in found]
    table = tables.build_table(("id", "proposal", "kind", "title"), rows, whole=("id", "proposal"))
    return Group(table, tables.format_count(len(found), total, "proposal"))


def render_proposal(found: WaitingProposal) -> RenderableType:
    """Render an item, the reason of its proposal, its evidence, and the item that it would change."""
    proposal, learned = found.proposal, found.proposal.learned
    facts: dict[str, object] = {
        "id": found.item.id,
        "title": found.item.title,
        "type": found.item.type,
        "scope": found.item.scope,
        "status": found.item.status.value,
        "proposal": f"{proposal.kind.value}: {proposal.reason}",
        "decision": proposal.decision.value if proposal.decision else None,
        "snoozed until": proposal.snoozed_until.isoformat() if proposal.snoozed_until else None,
        "extractor": learned.extractor,
        "confidence": f"{learned.confidence.low:.2f} to {learned.confidence.high:.2f}",
        "seen": format_number(learned.seen, "time"),
        "warning": "it addresses the assistant: read it before you approve it" if learned.addresses_assistant else None,
    }
    parts: list[RenderableType] = [
        tables.build_document({name: value for name, value in facts.items() if value not in (None, "")}),
        Text(),
        Text(clean_text(found.item.content)),
        Text("\nevidence", "bold"),
        *map(_render_quote, learned.evidence),
    ]
    if found.other is not None:
        parts += [Text(f"\nknown item {found.other.id}", "bold"), Text(clean_text(found.other.content))]
    return Group(*parts)


def _mark_title(one: WaitingProposal) -> str:
    mark = "(!) " if one.proposal.learned.addresses_assistant else ""
    return clean_line(f"{mark}{one.item.title}")


def _render_quote(quote: EvidenceQuote) -> Text:
    place = f"{quote.file}:{quote.line}" if quote.line else quote.file
    return Text(f"  {clean_line(place)}  ", "dim").append(clean_line(quote.quote), "not dim")
