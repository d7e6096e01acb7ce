"""Audit of one index: compare it with its record, and repair it on request."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic

from skillbus.contracts.indexer.tools import AuditDifference
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.differences import (
    NO_DIFFERENCES,
    SETTLE_S,
    Differences,
    compare_keys,
    find_lasting_differences,
)
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import EntryT, Key

_REPORTED_IDS: Final = 100
"""Ids reported of each kind of difference."""


@dataclass(frozen=True, slots=True)
class IndexAuditor(Generic[EntryT]):
    """Compares the index of a dataset with its record. Methods raise IndexUnavailableError when it is unavailable."""

    index: Index[EntryT]
    sync: Callable[[Sequence[Key]], Awaitable[None]]
    """Makes the index follow the record for some keys."""
    prefix: str = ""
    """Prefix of the names of the kinds."""
    settle_s: tuple[float, ...] = SETTLE_S

    async def audit_index(self, project: str | None, *, fix: bool) -> tuple[Differences, list[AuditDifference]]:
        """Compare the index with its record. With `fix`, repair the lasting differences.

        Returns:
            All differences that were found, and a report of those that were not writes in flight.
        """
        collections, entries, live = self.index.collections, self.index.entries, await self.index.open_if_needed()
        if live is None:
            return NO_DIFFERENCES, []
        found, lasting = await find_lasting_differences(collections, entries, live, self.settle_s, project)
        unrepaired = set(lasting.keys)
        if fix and lasting:
            await write_batches(lasting.keys, self.sync)
            unrepaired = set((await compare_keys(collections, entries, live, lasting.keys)).keys)
        kinds = {
            "not_indexed": lasting.missing,
            "indexed_otherwise": lasting.stale,
            "indexed_only": lasting.ghosts,
        }
        return found, [
            report_difference(f"{self.prefix}{kind}", keys, unrepaired) for kind, keys in kinds.items() if keys
        ]


def report_difference(kind: str, keys: Sequence[Key], unrepaired: set[Key]) -> AuditDifference:
    """Report the differences of one kind."""
    return AuditDifference(
        kind=kind,
        ids=tuple(f"{project}/{tool_id}" for project, tool_id in sorted(keys)[:_REPORTED_IDS]),
        count=len(keys),
        fixed=sum(key not in unrepaired for key in keys),
    )
