"""Lease of a switch: the right of one replica to carry it out."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from skillbus.contracts.indexer.index_switch import IndexSwitch
from skillbus.indexer.domain.index.switch_record import StoredSwitch, Switches, SwitchRecord, set_owner


class SwitchLease:
    """Lease held by the last writer of the record. Each write is a compare-and-set, so a loser notices at once."""

    def __init__(self, switches: Switches, alias: str, owner: str, stored: StoredSwitch) -> None:
        self._switches = switches
        self._alias = alias
        self._owner = owner
        self._stored = stored
        self._writing = asyncio.Lock()

    @property
    def record(self) -> SwitchRecord:
        """Record as it was last written."""
        return self._stored.record

    @property
    def switch(self) -> IndexSwitch:
        """Switch as callers see it."""
        return self._stored.record.switch

    async def update_record(self, change: Callable[[SwitchRecord], SwitchRecord]) -> None:
        """Write the changed record. Raises WriteConflictError when the lease is lost."""
        async with self._writing:
            record = change(set_owner(self._stored.record, self._owner))
            self._stored = await self._switches.save(self._alias, record, self._stored.revision)

    async def renew_lease(self) -> None:
        """Show that the work continues."""
        await self.update_record(lambda record: record)


class LeaseWatch:
    """Detects abandoned leases: their revision stands still for the duration of a lease.

    The duration is measured by the clock of this machine, because clocks of two machines may differ.
    """

    def __init__(self, owner: str, lease_s: float, now: Callable[[], datetime]) -> None:
        self._owner = owner
        self._lease = timedelta(seconds=lease_s)
        self._now = now
        self._seen: tuple[int, datetime] | None = None

    def is_free(self, stored: StoredSwitch) -> bool:
        """Return True if nobody else holds the lease."""
        if stored.record.owner in {None, self._owner}:
            return True
        if self._seen is None or self._seen[0] != stored.revision:
            self._seen = (stored.revision, self._now())
        return self._now() - self._seen[1] >= self._lease
