"""Brings the catalogue up to date with the list of a server."""

from dataclasses import dataclass, replace

from skillbus.agent.domain.ports import AgentCatalogue
from skillbus.agent.domain.servers.listing import ServerListing
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, ToolFinding, ToolPutOutcome, ToolState


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Changes that a listing made to the catalogue."""

    created: int = 0
    updated: int = 0
    quarantined: int = 0
    """Tools that this listing put into quarantine."""
    removed: int = 0
    waiting: int = 0
    """All tools of the server that are in quarantine now."""
    findings: tuple[ToolFinding, ...] = ()
    """Findings about tools that the catalogue refused."""

    @property
    def changed(self) -> bool:
        """True if the catalogue was changed."""
        return bool(self.created or self.updated or self.quarantined or self.removed)

    def without_changes(self) -> "SyncReport":
        """Return the report for a repetition of the same listing."""
        return replace(self, created=0, updated=0, quarantined=0, removed=0)


async def sync_catalogue(catalogue: AgentCatalogue, project: str, server: str, listing: ServerListing) -> SyncReport:
    """Put the listed tools into the catalogue, and remove those that are no longer listed.

    Disabled tools and tools in quarantine are kept: otherwise a server could make such a tool callable again by leaving
    it out of its list for a moment. After an error the call can be repeated. Raises RequestError.
    """
    source = f"{MCP_SOURCE_PREFIX}{server}"
    known = {tool.id: tool.state for tool in await catalogue.list_tools(project, source)}
    puts = await catalogue.put_tools(project, source, listing.tools)
    listed = {tool.id for tool in listing.tools}
    gone = sorted(id_ for id_, state in known.items() if id_ not in listed and state is ToolState.ACTIVE)
    removed = await catalogue.remove_tools(project, source, gone) if gone else 0
    outcomes = [put.outcome for put in puts]
    held = {put.id for put in puts if put.outcome is ToolPutOutcome.QUARANTINED}
    held_before = {id_ for id_, state in known.items() if state is ToolState.QUARANTINED}
    return SyncReport(
        created=outcomes.count(ToolPutOutcome.CREATED),
        updated=outcomes.count(ToolPutOutcome.UPDATED),
        quarantined=len(held - held_before),
        removed=removed,
        waiting=len(held | held_before),
        findings=tuple(
            ToolFinding(code="rejected", message=(put.error or "")[:300], where=(put.id or "")[:80])
            for put in puts
            if put.outcome is ToolPutOutcome.REJECTED
        ),
    )
