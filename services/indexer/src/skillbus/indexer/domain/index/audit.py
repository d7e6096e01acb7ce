"""Audit of one index: compare it with its record and repair it on request."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic

from skillbus.contracts.indexer.tools import AuditDifference
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.domain.index.differences import NONE, SETTLE_S, Differences, lasting_differences, still_different
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Entries, EntryT, Key

_TOLD: Final = 100
"""Ids of a kind that are told."""


@dataclass(frozen=True, slots=True)
class IndexAuditor(Generic[EntryT]):
    """Compares the index of a dataset with its record. Methods raise IndexUnavailableError when it cannot be had."""

    index: Index[EntryT]
    entries: Entries[EntryT]
    follow: Callable[[Sequence[Key]], Awaitable[None]]
    """Has the index follow the record."""
    prefix: str = ""
    """Of the kinds of differences."""
    settle_s: tuple[float, ...] = SETTLE_S

    async def audit(self, project: str | None, *, fix: bool) -> tuple[Differences, list[AuditDifference]]:
        """What a look found, and what of it was no write under way; with `fix`, how much of that differs no more."""
        collections, live = self.index.collections, await self.index.opened()
        if live is None:
            return NONE, []
        found, lasting = await lasting_differences(collections, self.entries, live, self.settle_s, project)
        unmended = set(lasting.keys)
        if fix and lasting:
            await in_batches(lasting.keys, self.follow)
            unmended = set((await still_different(collections, self.entries, live, lasting.keys)).keys)
        kinds = {
            "not_indexed": lasting.missing,
            "indexed_otherwise": lasting.stale,
            "indexed_only": lasting.ghosts,
        }
        told = [report_difference(f"{self.prefix}{kind}", keys, unmended) for kind, keys in kinds.items() if keys]
        return found, told


def report_difference(kind: str, keys: Sequence[Key], unmended: set[Key]) -> AuditDifference:
    return AuditDifference(
        kind=kind,
        ids=tuple(f"{project}/{tool_id}" for project, tool_id in sorted(keys)[:_TOLD]),
        count=len(keys),
        fixed=sum(key not in unmended for key in keys),
    )
