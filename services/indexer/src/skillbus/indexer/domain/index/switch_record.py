"""How far the switch of an index is: what is stored of it, and every step from one state to the next.

BUILDING → BACKFILLING → VERIFYING → KEPT → DONE, and from each but the last to ROLLED_BACK. A record is only ever
replaced by compare-and-set, and then carried out: whoever reads it can do what it says, again if need be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog
from pydantic import Field

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import IndexModel, IndexSwitch, SwitchPhase
from skillbus.contracts.message import Message

READERS_LAG_S: Final = 5.0
"""For so long a search may still go to a collection that the alias has left: readers remember the alias for 1 s."""
_RUNNING: Final = frozenset({SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING})
log = structlog.get_logger(__name__)


class SwitchRecord(Message):
    """The last switch of an alias, as it is stored."""

    switch: IndexSwitch
    owner: str | None = None
    """Which replica carries it out. It writes the record again and again; one that no longer does has lost it."""
    beats: int = 0
    """Makes each such writing another record."""
    refused: str | None = None
    """Fingerprint of a model that was rolled back from: not tried by itself while it is the default."""
    leaving: Mapping[str, datetime] = Field(default_factory=dict)
    """Collections that are no longer part of it, and until when searches may still be on them."""

    @property
    def running(self) -> bool:
        """Whether a new collection is being made."""
        return self.switch.phase in _RUNNING

    @property
    def target(self) -> IndexModel:
        """What it goes to."""
        return self.switch.target

    @property
    def searched(self) -> str | None:
        """Where the alias belongs by this record; None when it does not matter, as the source is searched still."""
        match self.switch.phase:
            case SwitchPhase.KEPT | SwitchPhase.DONE:
                return self.target.collection
            case SwitchPhase.ROLLED_BACK:
                return self.switch.source.collection if self.switch.source else None
            case _:
                return None

    @property
    def written(self) -> frozenset[str]:
        """What is to be written beside the collection that the alias points at."""
        source = frozenset({self.switch.source.collection} if self.switch.source else ())
        match self.switch.phase:
            case SwitchPhase.ROLLED_BACK:
                return source
            case SwitchPhase.DONE:
                return frozenset({self.target.collection})
            case _:
                return source | {self.target.collection}

    def named(self, now: datetime) -> frozenset[str]:
        """What must not be removed."""
        return self.written | {collection for collection, until in self.leaving.items() if until > now}


@dataclass(frozen=True, slots=True)
class StoredSwitch:
    """A record and its revision, which the next write must name."""

    record: SwitchRecord
    revision: int


class Switches(Protocol):
    """Where the state of switches is kept, by alias. Methods raise RequestError when it cannot be had."""

    async def get(self, alias: str) -> StoredSwitch | None:
        """The last switch of an alias, as it is now and not as it was a moment ago."""
        ...

    async def put(self, alias: str, record: SwitchRecord, revision: int) -> StoredSwitch:
        """Write over `revision`, 0 for none. Raises SwitchConflictError when another was written since."""
        ...


def begun(
    before: SwitchRecord | None, switch_id: str, source: IndexModel, target: IndexModel, now: datetime
) -> SwitchRecord:
    """A new switch, in place of what was."""
    switch = IndexSwitch(
        id=switch_id, phase=SwitchPhase.BUILDING, source=source, target=target, done=0, total=0, started_at=now
    )
    record = SwitchRecord(switch=switch)
    dropped = frozenset() if before is None else before.named(now) - record.written
    earlier = {} if before is None else before.leaving
    until = now + timedelta(seconds=READERS_LAG_S)
    return record.model_copy(update={"leaving": {name: earlier.get(name, until) for name in dropped}})


def owned(record: SwitchRecord, owner: str | None) -> SwitchRecord:
    """Claimed, renewed or let go of."""
    return record.model_copy(update={"owner": owner, "beats": record.beats + 1})


def advanced(record: SwitchRecord, phase: SwitchPhase) -> SwitchRecord:
    """A phase further."""
    return _switch(record, phase=phase, problem=None)


def progressed(record: SwitchRecord, done: int, total: int) -> SwitchRecord:
    """So many entries of so many are in the new collection."""
    return _switch(record, done=done, total=total, problem=None)


def hindered(record: SwitchRecord, problem: str) -> SwitchRecord:
    """It does not go on at the moment."""
    return _switch(record, problem=problem)


def switched(record: SwitchRecord, now: datetime, keep_s: float) -> SwitchRecord:
    """The alias points at the target; the source is kept."""
    return _switch(
        owned(record, None),
        phase=SwitchPhase.KEPT,
        problem=None,
        done=record.switch.total,
        switched_at=now,
        kept_until=now + timedelta(seconds=keep_s),
    )


def finished(record: SwitchRecord) -> SwitchRecord:
    """The source is no longer needed."""
    source, left = record.switch.source, record.switch.switched_at
    leaving = {source.collection: left + timedelta(seconds=READERS_LAG_S)} if source and left else {}
    return _switch(
        owned(record, None).model_copy(update={"leaving": leaving}),
        phase=SwitchPhase.DONE,
        problem=None,
        kept_until=None,
    )


def rolled_back(record: SwitchRecord, now: datetime, *, refused: bool) -> SwitchRecord:
    """The source is searched; the target is written no more, and goes when the last search on it is over."""
    until = now + timedelta(seconds=READERS_LAG_S)
    kept = {name: end for name, end in record.leaving.items() if end > now}
    update = {
        "leaving": {**kept, record.target.collection: until},
        "refused": record.target.fingerprint if refused else None,
    }
    return _switch(
        owned(record, None).model_copy(update=update), phase=SwitchPhase.ROLLED_BACK, problem=None, kept_until=None
    )


def forgiven(record: SwitchRecord) -> SwitchRecord:
    """Another model was the default since: the one that was rolled back from may be tried again."""
    return record.model_copy(update={"refused": None})


def _switch(record: SwitchRecord, **changes: object) -> SwitchRecord:
    return record.model_copy(update={"switch": record.switch.model_copy(update=changes)})


class SwitchAnnouncer(Protocol):
    """Tells how far a switch is."""

    async def progressed(self, alias: str, switch: IndexSwitch) -> None:
        """It came further. Raises RequestError when the fact could not be published."""
        ...


async def announce(announcer: SwitchAnnouncer, alias: str, switch: IndexSwitch) -> None:
    """Say how far a switch is; that nobody hears it does not hold it up."""
    try:
        await announcer.progressed(alias, switch)
    except RequestError as error:
        log.warning("switch_not_announced", alias=alias, phase=switch.phase, reason=str(error))
