"""When an index goes to another model, and what people may ask of that."""

from asyncio import gather
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Protocol
from uuid import uuid4

import structlog

from skillbus.contracts.indexer.index_switch import IndexModel, IndexState, SwitchPhase
from skillbus.indexer.domain.errors import (
    IndexMissingError,
    NoDefaultModelError,
    RollBackRefusedError,
)
from skillbus.indexer.domain.index.index import model_of_index
from skillbus.indexer.domain.index.ports import Collections, DefaultModel, EmbeddingModels
from skillbus.indexer.domain.index.switch_record import (
    StoredSwitch,
    SwitchAnnouncer,
    Switches,
    SwitchRecord,
    announce,
    begun,
    forgiven,
    rolled_back,
)

log = structlog.get_logger(__name__)


class Decision(Enum):
    """What a default model asks for."""

    NOTHING = auto()
    BEGIN = auto()
    """A switch to it; one that runs is given up."""
    GIVE_UP = auto()
    """The switch that runs: what is searched is of the default model again."""
    FORGIVE = auto()
    """The model that was rolled back from."""


def decide(record: SwitchRecord | None, live: str, default: IndexModel) -> Decision:
    """By the collection that is searched and that of the default model, which is another one for each schema too."""
    if record is not None and record.running:
        if record.target.collection == default.collection:
            return Decision.NOTHING
        return Decision.GIVE_UP if live == default.collection else Decision.BEGIN
    if record is not None and record.refused == default.fingerprint:
        return Decision.NOTHING
    if live != default.collection:
        return Decision.BEGIN
    return Decision.FORGIVE if record is not None and record.refused else Decision.NOTHING


class SearchedIndex(Protocol):
    """The index behind an alias, whatever it is of."""

    @property
    def alias(self) -> str:
        """Its name."""
        ...

    @property
    def collections(self) -> Collections:
        """What it is in."""
        ...

    async def live(self) -> str:
        """The collection that is searched. Raises IndexUnavailableError when it cannot be had."""
        ...

    async def opened(self) -> str | None:
        """The same, but None while there is none and nothing to fill it with."""
        ...


@dataclass(frozen=True, slots=True)
class SwitchDecisions:
    """Writes down what is to become of an index; a driver carries it out, here or in another replica."""

    index: SearchedIndex
    switches: Switches
    models: EmbeddingModels
    announcer: SwitchAnnouncer
    now: Callable[[], datetime]
    wake: Callable[[], None]
    """Tells the driver of this replica to look."""

    async def consider(self) -> None:
        """Begin what the default model asks for.

        Raises:
            IndexerError, RequestError: Not now; consider it again later.
        """
        default, live = await self.models.default(), await self.index.collections.live()
        if default is None or live is None:  # what is made first is made for the default model
            return
        stored = await self.switches.get(self.index.alias)
        record = stored.record if stored else None
        decision = decide(record, live, model_of_index(self.index.collections, default))
        await self._put(decision, stored, live, default)

    async def start(self) -> IndexState:
        """Begin a switch to the default model, also after a rollback; one that runs to it goes on.

        Raises:
            NoDefaultModelError, SwitchConflictError, IndexUnavailableError: It was not begun.
        """
        default = await self.models.default()
        if default is None:
            raise NoDefaultModelError
        live = await self.index.live()
        stored = await self.switches.get(self.index.alias)
        record = forgiven(stored.record) if stored else None
        decision = decide(record, live, model_of_index(self.index.collections, default))
        await self._put(decision, stored, live, default)
        return await self.state()

    async def roll_back(self) -> IndexState:
        """Go back to the source of the last switch, or give up one that runs.

        Raises:
            RollBackRefusedError, SwitchConflictError, IndexUnavailableError: It was not done.
        """
        stored = await self.switches.get(self.index.alias)
        if stored is None:
            raise RollBackRefusedError("This index was never switched: there is nothing to go back to.")
        source = await self._source_of(stored.record)
        # Recorded first: were the alias moved first, a driver that follows the record would move it back.
        stored = await self._write(rolled_back(stored.record, self.now(), refused=True), stored.revision)
        await self.index.collections.point_alias(source)
        log.info("index_rolled_back", alias=self.index.alias, collection=source)
        return await self.state()

    async def _source_of(self, record: SwitchRecord) -> str:
        phase, source = record.switch.phase, record.switch.source
        if phase is SwitchPhase.ROLLED_BACK:
            raise RollBackRefusedError("The last switch was rolled back already.")
        there = await self.index.collections.names()
        if phase is SwitchPhase.DONE or source is None or source.collection not in there:
            raise RollBackRefusedError(
                "The collection before the last switch is gone: make the model that it was of the default again, "
                "and the index is taken back to it."
            )
        return source.collection

    async def _put(self, decision: Decision, stored: StoredSwitch | None, live: str, default: DefaultModel) -> None:
        record, revision = (stored.record, stored.revision) if stored else (None, 0)
        if decision is Decision.BEGIN:
            source = self._described(live, record)
            target = model_of_index(self.index.collections, default)
            await self._write(begun(record, uuid4().hex, source, target, self.now()), revision)
            log.info("index_switch_begun", source=source.collection, target=target.collection, model=default.name)
        elif decision is Decision.GIVE_UP and record is not None:
            await self._write(rolled_back(record, self.now(), refused=False), revision)
            log.info("index_switch_given_up", target=record.target.collection, model=default.name)
        elif decision is Decision.FORGIVE and record is not None:
            await self.switches.put(self.index.alias, forgiven(record), revision)

    async def _write(self, record: SwitchRecord, revision: int) -> StoredSwitch:
        stored = await self.switches.put(self.index.alias, record, revision)
        self.wake()
        await announce(self.announcer, self.index.alias, stored.record.switch)
        return stored

    async def state(self) -> IndexState:
        """What is searched, and the last switch."""
        live = await self.index.collections.live()
        stored = await self.switches.get(self.index.alias)
        record = stored.record if stored else None
        return IndexState(
            alias=self.index.alias,
            live=None if live is None else self._described(live, record),
            switch=record.switch if record else None,
        )

    def _described(self, collection: str, record: SwitchRecord | None) -> IndexModel:
        """A collection with what is known of its model, by the last switch or because it was the default.

        Of one that was made before, for a model that is not the default any more, neither name nor dimensions are
        known; they are then None and 0.
        """
        for model in (record.switch.target, record.switch.source) if record else ():
            if model is not None and model.collection == collection:
                return model
        fingerprint = self.index.collections.fingerprint_of(collection)
        known = self.models.known(fingerprint)
        return IndexModel(
            collection=collection,
            fingerprint=fingerprint,
            name=known.name if known else None,
            dimensions=known.dimensions if known else 0,
        )


@dataclass(frozen=True, slots=True)
class Indexes:
    """The decisions of every index."""

    decisions: Sequence[SwitchDecisions]

    def of(self, alias: str) -> SwitchDecisions:
        """Those of one. Raises IndexMissingError."""
        for decisions in self.decisions:
            if decisions.index.alias == alias:
                return decisions
        raise IndexMissingError(alias)

    async def states(self) -> tuple[IndexState, ...]:
        """Every index, and its last switch."""
        return tuple([await decisions.state() for decisions in self.decisions])

    async def consider(self) -> None:
        """Begin what the default model asks for, of each index whether or not it can be had of the others.

        Raises:
            IndexerError, RequestError: Not now of one of them; consider all again later.
        """
        considered = await gather(*(decisions.consider() for decisions in self.decisions), return_exceptions=True)
        for outcome in considered:
            if isinstance(outcome, BaseException):
                raise outcome
