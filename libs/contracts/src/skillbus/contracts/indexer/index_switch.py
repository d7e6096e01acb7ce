"""How the indexer takes an index from one embedding model to another, while it is searched and written.

A switch builds a new collection, fills it, writes to both meanwhile, verifies it against the record, and only then
points the alias at it. The old collection is kept for a while, and can be gone back to.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import Empty, Message


class SwitchPhase(StrEnum):
    """How far a switch has come."""

    BUILDING = "building"
    """The new collection is made; from here on writes go to both."""
    BACKFILLING = "backfilling"
    VERIFYING = "verifying"
    """What differs from the record is written again until nothing does."""
    KEPT = "kept"
    """The alias points at the new collection; the old one is still written, until `kept_until`."""
    DONE = "done"
    """The old collection is gone."""
    ROLLED_BACK = "rolled_back"
    """The alias points at the old collection again; the same model is not tried again by itself."""


class IndexModel(Message):
    """The model whose vectors a collection holds."""

    collection: str
    fingerprint: str
    name: str | None
    """Absent when the embedder does not know it any more."""
    dimensions: int


class IndexSwitch(Message):
    """The last switch of an alias."""

    id: str
    phase: SwitchPhase
    source: IndexModel | None
    """What was searched before; absent when there was nothing."""
    target: IndexModel
    done: int
    """Entries in the new collection: tools, or items of knowledge."""
    total: int
    started_at: datetime
    switched_at: datetime | None = None
    kept_until: datetime | None = None
    problem: str | None = None
    """Why it does not go on at the moment; it is tried again by itself."""


class IndexState(Message):
    """An alias, what is searched under it, and its last switch."""

    alias: str
    """`tools` or `knowledge`."""
    live: IndexModel | None
    switch: IndexSwitch | None = None


class IndexesListed(Message):
    """Every alias."""

    indexes: tuple[IndexState, ...]


class IndexSelector(Message):
    """One alias."""

    alias: str = "tools"


class SwitchProgress(Message):
    """A switch has come further."""

    alias: str
    switch: IndexSwitch


LIST_INDEXES: Final = Endpoint(
    service=SERVICE,
    name="list_indexes",
    request=Empty,
    reply=IndexesListed,
    summary="What is searched, with vectors of which model, and how far a change to another one is.",
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
)
START_SWITCH: Final = Endpoint(
    service=SERVICE,
    name="start_switch",
    request=IndexSelector,
    reply=IndexState,
    summary="Take an index to the default model now, also after a rollback; a switch that runs goes on.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.VECTOR_STORE_UNAVAILABLE),
    example={"alias": "tools"},
)
ROLL_BACK: Final = Endpoint(
    service=SERVICE,
    name="roll_back",
    request=IndexSelector,
    reply=IndexState,
    summary="Go back to the collection before the last switch, or give up one that runs.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.VECTOR_STORE_UNAVAILABLE),
    example={"alias": "tools"},
)

SWITCH_PROGRESSED: Final = Event(
    SERVICE, "index", "switch_progressed", SwitchProgress, "A change to another model has come further."
)
