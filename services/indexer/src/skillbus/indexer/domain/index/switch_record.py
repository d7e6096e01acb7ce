"""State of an index switch, its transitions as pure functions, and the lease of the replica that carries it out.

BUILDING → BACKFILLING → VERIFYING → KEPT → DONE, and from each but the last to ROLLED_BACK. A record is replaced only
by compare-and-set, and carried out afterwards. Any replica can carry it out, also a second time.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog
from pydantic import Field

from skillbus.common.records import StoredRecord
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import IndexModel, IndexSwitch, SwitchPhase
from skillbus.contracts.message import Message

READERS_LAG_S: Final = 5.0
"""Time during which searches may still use a collection that the alias has left. Readers cache the alias for 1 s."""
_RUNNING: Final = frozenset({SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING})
log = structlog.get_logger(__name__)


class SwitchRecord(Message):
    """The last switch of an alias."""

    switch: IndexSwitch
    owner: str | None = None
    """Replica that carries it out. It keeps renewing the record; a replica that stops doing so loses the switch."""
    beats: int = 0
    """Number of renewals."""
    refused: str | None = None
    """Fingerprint of a model that was rolled back. No switch to it begins by itself while it stays the default."""
    leaving: Mapping[str, datetime] = Field(default_factory=dict)
    """Collections that left the switch, with the time until which searches may still use them."""

    @property
    def running(self) -> bool:
        """True while a new collection is built."""
        return self.switch.phase in _RUNNING

    @property
    def target(self) -> IndexModel:
        """Collection that the switch leads to."""
        return self.switch.target

    @property
    def searched(self) -> str | None:
        """Collection that the alias must point to; None while the source is still live."""
        match self.switch.phase:
            case SwitchPhase.KEPT | SwitchPhase.DONE:
                return self.target.collection
            case SwitchPhase.ROLLED_BACK:
                return self.switch.source.collection if self.switch.source else None
            case _:
                return None

    @property
    def written(self) -> frozenset[str]:
        """Collections to write in addition to the live one."""
        source = frozenset({self.switch.source.collection} if self.switch.source else ())
        match self.switch.phase:
            case SwitchPhase.ROLLED_BACK:
                return source
            case SwitchPhase.DONE:
                return frozenset({self.target.collection})
            case _:
                return source | {self.target.collection}

    def list_needed(self, now: datetime) -> frozenset[str]:
        """Return the collections that must not be deleted."""
        return self.written | {collection for collection, until in self.leaving.items() if until > now}


StoredSwitch = StoredRecord[SwitchRecord]


class Switches(Protocol):
    """Store of switch records by alias; `KvRecords` is one. Methods raise RequestError when it is unavailable."""

    async def load(self, key: str) -> StoredSwitch | None:
        """Return the last switch of an alias, read from the leader and not from a copy."""

    async def save(self, key: str, record: SwitchRecord, revision: int) -> StoredSwitch:
        """Write over `revision`, 0 for a new one. Raises WriteConflictError when somebody else wrote since."""


def begin_switch(
    before: SwitchRecord | None, switch_id: str, source: IndexModel, target: IndexModel, now: datetime
) -> SwitchRecord:
    switch = IndexSwitch(
        id=switch_id, phase=SwitchPhase.BUILDING, source=source, target=target, done=0, total=0, started_at=now
    )
    record = SwitchRecord(switch=switch)
    dropped = frozenset() if before is None else before.list_needed(now) - record.written
    earlier = {} if before is None else before.leaving
    until = now + timedelta(seconds=READERS_LAG_S)
    return record.model_copy(update={"leaving": {name: earlier.get(name, until) for name in dropped}})


def set_owner(record: SwitchRecord, owner: str | None) -> SwitchRecord:
    """Claim, renew or release the lease."""
    return record.model_copy(update={"owner": owner, "beats": record.beats + 1})


def advance_phase(record: SwitchRecord, phase: SwitchPhase) -> SwitchRecord:
    return _switch(record, phase=phase, problem=None)


def record_progress(record: SwitchRecord, done: int, total: int) -> SwitchRecord:
    """Note how many entries are in the new collection."""
    return _switch(record, done=done, total=total, problem=None)


def record_problem(record: SwitchRecord, problem: str) -> SwitchRecord:
    """Note why the switch does not continue at the moment."""
    return _switch(record, problem=problem)


def complete_switch(record: SwitchRecord, now: datetime, keep_s: float) -> SwitchRecord:
    """Note that the alias points to the target. The source is kept for a while."""
    return _switch(
        set_owner(record, None),
        phase=SwitchPhase.KEPT,
        problem=None,
        done=record.switch.total,
        switched_at=now,
        kept_until=now + timedelta(seconds=keep_s),
    )


def finish_keeping(record: SwitchRecord) -> SwitchRecord:
    source, left = record.switch.source, record.switch.switched_at
    leaving = {source.collection: left + timedelta(seconds=READERS_LAG_S)} if source and left else {}
    return _switch(
        set_owner(record, None).model_copy(update={"leaving": leaving}),
        phase=SwitchPhase.DONE,
        problem=None,
        kept_until=None,
    )


def roll_back_switch(record: SwitchRecord, now: datetime, *, refused: bool) -> SwitchRecord:
    """Return to the source. The target is no longer written, and is deleted when the last search on it has ended."""
    until = now + timedelta(seconds=READERS_LAG_S)
    kept = {name: end for name, end in record.leaving.items() if end > now}
    update = {
        "leaving": {**kept, record.target.collection: until},
        "refused": record.target.fingerprint if refused else None,
    }
    return _switch(
        set_owner(record, None).model_copy(update=update), phase=SwitchPhase.ROLLED_BACK, problem=None, kept_until=None
    )


def allow_model(record: SwitchRecord) -> SwitchRecord:
    """Allow a switch to the model that was rolled back, because another model was the default since."""
    return record.model_copy(update={"refused": None})


def _switch(record: SwitchRecord, **changes: object) -> SwitchRecord:
    return record.model_copy(update={"switch": record.switch.model_copy(update=changes)})


class SwitchAnnouncer(Protocol):
    """Publishes the progress of switches."""

    async def announce_progress(self, alias: str, switch: IndexSwitch) -> None:
        """Publish the state of a switch. Raises RequestError when it could not be published."""


async def try_announce(announcer: SwitchAnnouncer, alias: str, switch: IndexSwitch) -> None:
    """Publish the state of a switch. A failure is logged and does not stop the switch."""
    try:
        await announcer.announce_progress(alias, switch)
    except RequestError as error:
        log.warning("switch_not_announced", alias=alias, phase=switch.phase, reason=str(error))


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
