"""The right to carry out a switch: one replica has it at a time."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from skillbus.contracts.indexer.index_switch import IndexSwitch
from skillbus.indexer.domain.index.switch_record import StoredSwitch, Switches, SwitchRecord, owned


class SwitchLease:
    """Held by who wrote the record last. Each write is a compare-and-set, so one that lost it finds out by that."""

    def __init__(self, switches: Switches, alias: str, owner: str, stored: StoredSwitch) -> None:
        self._switches = switches
        self._alias = alias
        self._owner = owner
        self._stored = stored
        self._writing = asyncio.Lock()

    @property
    def record(self) -> SwitchRecord:
        """As it was written last."""
        return self._stored.record

    @property
    def switch(self) -> IndexSwitch:
        """What it shows."""
        return self._stored.record.switch

    async def update(self, change: Callable[[SwitchRecord], SwitchRecord]) -> None:
        """Write what `change` makes of the record. Raises SwitchConflictError when the lease is lost."""
        async with self._writing:
            record = change(owned(self._stored.record, self._owner))
            self._stored = await self._switches.put(self._alias, record, self._stored.revision)

    async def renew(self) -> None:
        """Show that the work goes on."""
        await self.update(lambda record: record)


class LeaseWatch:
    """Tells a lease that is held from one whose holder is gone.

    By how long a revision stands still on the own clock: those of two machines may differ.
    """

    def __init__(self, owner: str, lease_s: float, now: Callable[[], datetime]) -> None:
        self._owner = owner
        self._lease = timedelta(seconds=lease_s)
        self._now = now
        self._seen: tuple[int, datetime] | None = None

    def may_take(self, stored: StoredSwitch) -> bool:
        """Whether nobody else holds it."""
        if stored.record.owner in {None, self._owner}:
            return True
        if self._seen is None or self._seen[0] != stored.revision:
            self._seen = (stored.revision, self._now())
        return self._now() - self._seen[1] >= self._lease
