"""Writes items. A change and its history, outbox row and audit entry are one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, delete, insert, select

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.change_writer import write_changes
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import HISTORY, IDEMPOTENCY, ITEM_COLUMNS, KNOWLEDGE, parse_item
from skillbus.learner.domain.errors import (
    ConcurrentChangeError,
    ExternalIdTakenError,
    KeyReusedError,
    UnknownItemError,
)
from skillbus.learner.domain.item.lifecycle import ItemChange
from skillbus.learner.domain.item.ports import Decide, IdempotencyKey, WriteOutcome
from skillbus.sql.errors import ConstraintError

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class SqlKnowledgeStore:
    """Writes with pessimistic locks: a row lock on PostgreSQL, the single write transaction on SQLite."""

    database: KnowledgeDatabase

    async def create_item(self, change: ItemChange, key: IdempotencyKey | None) -> WriteOutcome:
        def work(connection: Connection) -> WriteOutcome:
            if key is not None:
                first = _load_first_outcome(connection, change.item.project, key)
                if first is not None:
                    return first
                connection.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.at <= key.since))
                item = change.item
                used = {"project": item.project, "key": key.key, "request_digest": key.request_digest}
                written = {"id": item.id, "version": item.version, "at": item.created_at}
                connection.execute(insert(IDEMPOTENCY).values(used | written))
            refuse_taken_external_id(connection, change)
            write_changes(connection, (change,))
            return WriteOutcome(change.item, indexed=False, repeated=False)

        return await self._write(work)

    async def change_item(self, project: str, item: str, decide: Decide) -> WriteOutcome:
        def work(connection: Connection) -> WriteOutcome:
            locked = lock_items(connection, project, (item,))
            if item not in locked:
                raise UnknownItemError(project, item)
            found, indexed_version = locked[item]
            change = decide(found)
            if change is None:
                return WriteOutcome(found, indexed=indexed_version >= found.version, repeated=True)
            refuse_taken_external_id(connection, change)
            write_changes(connection, (change,))
            return WriteOutcome(change.item, indexed=False, repeated=False)

        return await self._write(work)

    async def _write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Write in one transaction; if a concurrent one wrote the same, again in a second one that sees it."""
        for _ in range(2):
            try:
                return await self.database.write(work)
            except ConstraintError:
                continue
        raise ConcurrentChangeError


def lock_items(connection: Connection, project: str, items: Sequence[str]) -> Mapping[str, tuple[KnowledgeItem, int]]:
    """Return items and their indexed versions by id. Nobody else changes them until the transaction ends."""
    found = connection.execute(
        select(*ITEM_COLUMNS, KNOWLEDGE.c.indexed_version)
        .where(KNOWLEDGE.c.project == project, KNOWLEDGE.c.id.in_(items))
        .order_by(KNOWLEDGE.c.id)  # one lock order for all transactions prevents deadlocks
        .with_for_update()
    )
    return {item.id: (item, row.indexed_version) for row in found for item in (parse_item(row),)}


def refuse_taken_external_id(connection: Connection, change: ItemChange) -> None:
    """Raise ExternalIdTakenError if another item of the project has the external id that a change gives."""
    wanted = change.item.external_id
    if wanted is None or (change.before is not None and change.before.external_id == wanted):
        return
    owner = select(KNOWLEDGE.c.id).where(
        KNOWLEDGE.c.project == change.item.project, KNOWLEDGE.c.external_id == wanted, KNOWLEDGE.c.id != change.item.id
    )
    if (taken := connection.execute(owner).scalar()) is not None:
        raise ExternalIdTakenError(wanted, taken)


def _load_first_outcome(connection: Connection, project: str, key: IdempotencyKey) -> WriteOutcome | None:
    """Return the outcome of the key's first use; None for a new key."""
    found = connection.execute(
        select(IDEMPOTENCY.c.request_digest, HISTORY.c.snapshot, KNOWLEDGE.c.indexed_version)
        .join(HISTORY, (HISTORY.c.id == IDEMPOTENCY.c.id) & (HISTORY.c.version == IDEMPOTENCY.c.version))
        .join(KNOWLEDGE, KNOWLEDGE.c.id == IDEMPOTENCY.c.id)
        .where(IDEMPOTENCY.c.project == project, IDEMPOTENCY.c.key == key.key, IDEMPOTENCY.c.at > key.since)
    )
    if (row := found.one_or_none()) is None:
        return None
    if row.request_digest != key.request_digest:
        raise KeyReusedError(key.key)
    item = KnowledgeItem.model_validate_json(row.snapshot)
    return WriteOutcome(item, indexed=row.indexed_version >= item.version, repeated=True)
