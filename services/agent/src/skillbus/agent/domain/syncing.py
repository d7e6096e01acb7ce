"""The catalogue brought to what a server lists."""

from dataclasses import dataclass, replace

from skillbus.agent.domain.described import Listing
from skillbus.agent.domain.ports import Catalogue
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, ToolFinding, ToolPutOutcome, ToolState


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of a listing."""

    created: int = 0
    updated: int = 0
    quarantined: int = 0
    """By this listing."""
    removed: int = 0
    waiting: int = 0
    """Tools of the server that are in quarantine now."""
    findings: tuple[ToolFinding, ...] = ()
    """Of the catalogue, about tools that it refused."""

    @property
    def changed(self) -> bool:
        """Whether the catalogue is another than before."""
        return bool(self.created or self.updated or self.quarantined or self.removed)

    def repeated(self) -> "Synced":
        """What becomes of the same listing when it comes again."""
        return replace(self, created=0, updated=0, quarantined=0, removed=0)


async def sync(catalogue: Catalogue, project: str, server: str, listing: Listing) -> Synced:
    """Put what is listed, and take out what is listed no longer. Raises RequestError; it can be done again.

    What an operator disabled, or has yet to accept, stays: else a server would have it found and called again by
    listing it no longer for a moment.
    """
    source = f"{MCP_SOURCE_PREFIX}{server}"
    known = {tool.id: tool.state for tool in await catalogue.tools(project, source)}
    puts = await catalogue.put(project, source, listing.tools)
    listed = {tool.id for tool in listing.tools}
    gone = sorted(id_ for id_, state in known.items() if id_ not in listed and state is ToolState.ACTIVE)
    removed = await catalogue.remove(project, source, gone) if gone else 0
    outcomes = [put.outcome for put in puts]
    left = {id_: state for id_, state in known.items() if id_ not in gone}
    held = {put.id for put in puts if put.outcome is ToolPutOutcome.QUARANTINED}
    waiting = held | {id_ for id_, state in left.items() if state is ToolState.QUARANTINED}
    return Synced(
        created=outcomes.count(ToolPutOutcome.CREATED),
        updated=outcomes.count(ToolPutOutcome.UPDATED),
        quarantined=len(held - {id_ for id_, state in left.items() if state is ToolState.QUARANTINED}),
        removed=removed,
        waiting=len(waiting),
        findings=tuple(
            ToolFinding(code="rejected", message=(put.error or "")[:300], where=(put.id or "")[:80])
            for put in puts
            if put.outcome is ToolPutOutcome.REJECTED
        ),
    )
