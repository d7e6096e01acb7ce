"""Switch of an index to another embedding model, without interrupting searches and writes.

A switch builds a new collection, fills it while writes go to both collections, verifies it against the record, and
then points the alias at it. The old collection is kept for some time so that the switch can be rolled back.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import Empty, Message


class SwitchPhase(StrEnum):
    """Progress of a switch."""

    BUILDING = "building"
    """The new collection exists. From now on writes go to both collections."""
    BACKFILLING = "backfilling"
    """Every record is written to the new collection."""
    VERIFYING = "verifying"
    """Records that differ are written again, until none differs."""
    KEPT = "kept"
    """The alias points at the new collection. The old one is still written, until `kept_until`."""
    DONE = "done"
    """The old collection is deleted."""
    ROLLED_BACK = "rolled_back"
    """The alias points at the old collection again. The indexer does not retry this model on its own."""


class IndexModel(Message):
    """Collection and the model of its vectors."""

    collection: str
    fingerprint: str
    """Identity of the vectors."""
    name: str | None
    """Name of the model. Absent if the embedder no longer knows it."""
    dimensions: int


class IndexSwitch(Message):
    """Latest switch of an alias."""

    id: str
    phase: SwitchPhase
    source: IndexModel | None
    """Collection before the switch. Absent if there was none."""
    target: IndexModel
    done: int
    """Number of entries in the new collection."""
    total: int
    """Number of entries in the record."""
    started_at: datetime
    switched_at: datetime | None = None
    """Time when the alias was changed."""
    kept_until: datetime | None = None
    """Time when the old collection is deleted."""
    problem: str | None = None
    """Reason why the switch makes no progress. The indexer retries on its own."""


class IndexState(Message):
    """Index: its alias, its live collection and its latest switch."""

    alias: str
    """`tools`, `knowledge`, `devices` or `commands`."""
    live: IndexModel | None
    """Collection that is searched."""
    switch: IndexSwitch | None = None


class IndexesListed(Message):
    """All indexes."""

    indexes: tuple[IndexState, ...]


class IndexSelector(Message):
    """Alias of the wanted index."""

    alias: str = "tools"
    """`tools`, `knowledge`, `devices` or `commands`."""


class SwitchProgress(Message):
    """Progress of a switch."""

    alias: str
    switch: IndexSwitch


LIST_INDEXES: Final = Endpoint(
    service=SERVICE,
    name="list_indexes",
    request=Empty,
    reply=IndexesListed,
    summary="List the indexes with their models and the progress of their switches.",
    is_read=True,
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
)
START_SWITCH: Final = Endpoint(
    service=SERVICE,
    name="start_switch",
    request=IndexSelector,
    reply=IndexState,
    summary="Start the switch of an index to the default model now, also after a rollback. A running switch continues.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.VECTOR_STORE_UNAVAILABLE),
    stores_data=True,
    example={"alias": "tools"},
    act=AuditedAct("alias"),
)
ROLL_BACK: Final = Endpoint(
    service=SERVICE,
    name="roll_back",
    request=IndexSelector,
    reply=IndexState,
    summary="Roll the last switch back to the old collection, or abort a running switch.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.VECTOR_STORE_UNAVAILABLE),
    example={"alias": "tools"},
    act=AuditedAct("alias"),
)
SWITCH_PROGRESSED: Final = Event(
    SERVICE, "index", "switch_progressed", SwitchProgress, "The switch of an index to another model made progress."
)
