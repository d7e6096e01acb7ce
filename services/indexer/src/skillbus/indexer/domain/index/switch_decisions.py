"""Decisions about index switches: when one begins, and what operators may request."""

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
from skillbus.indexer.domain.index.index import describe_collection
from skillbus.indexer.domain.index.ports import Collections, DefaultModel, EmbeddingModels
from skillbus.indexer.domain.index.switch_record import (
    StoredSwitch,
    SwitchAnnouncer,
    Switches,
    SwitchRecord,
    allow_model,
    begin_switch,
    roll_back_switch,
    try_announce,
)

log = structlog.get_logger(__name__)


class SwitchDecision(Enum):
    """Consequence of a default model."""

    NOTHING = auto()
    BEGIN = auto()
    """Begin a switch to it; a running one is abandoned."""
    ABANDON = auto()
    """Abandon the running switch, because the live collection has the default model again."""
    ALLOW = auto()
    """Allow the model that was rolled back."""


def decide_switch(record: SwitchRecord | None, live: str, default: IndexModel) -> SwitchDecision:
    """Compare the live collection with that of the default model. A new schema gives another collection too."""
    if record is not None and record.running:
        if record.target.collection == default.collection:
            return SwitchDecision.NOTHING
        return SwitchDecision.ABANDON if live == default.collection else SwitchDecision.BEGIN
    if record is not None and record.refused == default.fingerprint:
        return SwitchDecision.NOTHING
    if live != default.collection:
        return SwitchDecision.BEGIN
    return SwitchDecision.ALLOW if record is not None and record.refused else SwitchDecision.NOTHING


class SwitchedIndex(Protocol):
    """The index behind an alias, of any dataset."""

    @property
    def alias(self) -> str:
        """Name of the alias."""

    @property
    def collections(self) -> Collections:
        """Collections of the index."""

    async def open_live(self) -> str:
        """Return the live collection. Raises IndexUnavailableError when the store is unavailable."""

    async def open_if_needed(self) -> str | None:
        """Return the live collection, or None if there is none and nothing to fill it with."""


@dataclass(frozen=True, slots=True)
class SwitchDecisions:
    """Records decisions about an index. A driver carries them out, here or in another replica.

    Methods raise RequestError or IndexUnavailableError when nothing could be changed.
    """

    index: SwitchedIndex
    switches: Switches
    models: EmbeddingModels
    announcer: SwitchAnnouncer
    now: Callable[[], datetime]
    wake: Callable[[], None]
    """Wakes the driver of this replica."""

    async def follow_default_model(self) -> None:
        """Begin or abandon a switch as the default model requires."""
        default, live = await self.models.load_default(), await self.index.collections.find_live()
        if default is None or live is None:  # the first collection is created for the default model
            return
        stored = await self.switches.load(self.index.alias)
        record = stored.record if stored else None
        decision = decide_switch(record, live, describe_collection(self.index.collections, default))
        await self._record(decision, stored, live, default)

    async def start_switch(self) -> IndexState:
        """Begin a switch to the default model, or continue it, also after a rollback. Raises NoDefaultModelError."""
        default = await self.models.load_default()
        if default is None:
            raise NoDefaultModelError
        live = await self.index.open_live()
        stored = await self.switches.load(self.index.alias)
        record = allow_model(stored.record) if stored else None
        decision = decide_switch(record, live, describe_collection(self.index.collections, default))
        await self._record(decision, stored, live, default)
        return await self.describe_state()

    async def roll_back(self) -> IndexState:
        """Return to the source of the last switch, or abandon a running one. Raises RollBackRefusedError."""
        stored = await self.switches.load(self.index.alias)
        if stored is None:
            raise RollBackRefusedError("This index was never switched: there is nothing to roll back.")
        source = await self._find_source(stored.record)
        # The record comes first: a driver follows the record and would move the alias back.
        stored = await self._write(roll_back_switch(stored.record, self.now(), refused=True), stored.revision)
        await self.index.collections.point_alias(source)
        log.info("index_rolled_back", alias=self.index.alias, collection=source)
        return await self.describe_state()

    async def _find_source(self, record: SwitchRecord) -> str:
        phase, source = record.switch.phase, record.switch.source
        if phase is SwitchPhase.ROLLED_BACK:
            raise RollBackRefusedError("The last switch was rolled back already.")
        existing = await self.index.collections.list_names()
        if phase is SwitchPhase.DONE or source is None or source.collection not in existing:
            raise RollBackRefusedError(
                "The collection from before the last switch is gone: make its model the default again, "
                "and the index switches back to it."
            )
        return source.collection

    async def _record(
        self, decision: SwitchDecision, stored: StoredSwitch | None, live: str, default: DefaultModel
    ) -> None:
        record, revision = (stored.record, stored.revision) if stored else (None, 0)
        if decision is SwitchDecision.BEGIN:
            source = self._describe(live, record)
            target = describe_collection(self.index.collections, default)
            await self._write(begin_switch(record, uuid4().hex, source, target, self.now()), revision)
            log.info("index_switch_begun", source=source.collection, target=target.collection, model=default.name)
        elif decision is SwitchDecision.ABANDON and record is not None:
            await self._write(roll_back_switch(record, self.now(), refused=False), revision)
            log.info("index_switch_abandoned", target=record.target.collection, model=default.name)
        elif decision is SwitchDecision.ALLOW and record is not None:
            await self.switches.save(self.index.alias, allow_model(record), revision)

    async def _write(self, record: SwitchRecord, revision: int) -> StoredSwitch:
        stored = await self.switches.save(self.index.alias, record, revision)
        self.wake()
        await try_announce(self.announcer, self.index.alias, stored.record.switch)
        return stored

    async def describe_state(self) -> IndexState:
        """Return the live collection and the last switch."""
        live = await self.index.collections.find_live()
        stored = await self.switches.load(self.index.alias)
        record = stored.record if stored else None
        return IndexState(
            alias=self.index.alias,
            live=None if live is None else self._describe(live, record),
            switch=record.switch if record else None,
        )

    def _describe(self, collection: str, record: SwitchRecord | None) -> IndexModel:
        """Describe a collection by the last switch, or by a model that was the default since the start.

        Name and dimensions are None and 0 if the model was the default only before the start.
        """
        for model in (record.switch.target, record.switch.source) if record else ():
            if model is not None and model.collection == collection:
                return model
        fingerprint = self.index.collections.read_fingerprint(collection)
        known = self.models.recall_model(fingerprint)
        return IndexModel(
            collection=collection,
            fingerprint=fingerprint,
            name=known.name if known else None,
            dimensions=known.dimensions if known else 0,
        )


@dataclass(frozen=True, slots=True)
class Indexes:
    """Every index of the service."""

    decisions: Sequence[SwitchDecisions]

    def find_index(self, alias: str) -> SwitchDecisions:
        """Return the decisions about one index. Raises IndexMissingError."""
        for decisions in self.decisions:
            if decisions.index.alias == alias:
                return decisions
        raise IndexMissingError(alias)

    async def follow_default_model(self) -> None:
        """Begin or abandon switches as the default model requires. An index that fails does not stop the others."""
        outcomes = await gather(*(one.follow_default_model() for one in self.decisions), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
