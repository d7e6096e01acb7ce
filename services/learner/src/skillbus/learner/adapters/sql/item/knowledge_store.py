"""Items in their tables. A change is one transaction, whatever it consists of."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.item.change_writer import write_changes
from skillbus.learner.adapters.sql.item.rows import ITEM_COLUMNS, item_of
from skillbus.learner.adapters.sql.record import written
from skillbus.learner.adapters.sql.tables import HISTORY, IDEMPOTENCY, KNOWLEDGE
from skillbus.learner.domain.errors import (
    ChangedMeanwhileError,
    ExternalIdTakenError,
    KeyReusedError,
    LearnerError,
    UnknownItemError,
)
from skillbus.learner.domain.item.lifecycle import Change
from skillbus.learner.domain.item.ports import Decide, Once, Outcome
from skillbus.sql.errors import ConstraintError

ResultT = TypeVar("ResultT")


class SqlKnowledgeStore:
    """Who changes an item holds its row, on PostgreSQL, or the right to write, on SQLite: nothing that others wrote is
    overwritten unseen.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, change: Change, once: Once | None) -> Outcome:
        def work(connection: Connection) -> Outcome:
            if once is not None:
                first = _first(connection, change.item.project, once)
                if first is not None:
                    return first
                _remember(connection, change.item, once)
            _refuse_taken(connection, change)
            write_changes(connection, (change,))
            return Outcome(change.item, indexed=False, repeated=False)

        return await self._written(work)

    async def change(self, project: str, item: str, decide: Decide) -> Outcome:
        def work(connection: Connection) -> Outcome:
            held = hold(connection, project, (item,))
            if item not in held:
                raise UnknownItemError(project, item)
            found, indexed_version = held[item]
            change = decide(found)
            if change is None:
                return Outcome(found, indexed=indexed_version >= found.version, repeated=True)
            _refuse_taken(connection, change)
            write_changes(connection, (change,))
            return Outcome(change.item, indexed=False, repeated=False)

        return await self._written(work)

    async def change_each(self, project: str, items: Sequence[str], decide: Decide) -> Sequence[Outcome | LearnerError]:
        def work(connection: Connection) -> Sequence[Outcome | LearnerError]:
            held = {item: found for item, (found, _) in (hold(connection, project, items)).items()}
            outcomes, changes = _decided(project, items, held, decide)
            write_changes(connection, changes)
            return outcomes

        return await self._written(work)

    async def _written(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """In one transaction, or, where somebody else wrote the same at the same time, in a second one that sees it."""
        for _ in range(2):
            try:
                return await written(self._engine, work)
            except ConstraintError:
                continue
        raise ChangedMeanwhileError


def hold(connection: Connection, project: str, items: Sequence[str]) -> Mapping[str, tuple[KnowledgeItem, int]]:
    """Those of the project by id, with the version that the index has; nobody else changes them until the end."""
    found = connection.execute(
        select(*ITEM_COLUMNS, KNOWLEDGE.c.indexed_version)
        .where(KNOWLEDGE.c.project == project, KNOWLEDGE.c.id.in_(items))
        .order_by(KNOWLEDGE.c.id)  # all in one order: two who hold several do not wait for one another
        .with_for_update()
    )
    return {item.id: (item, row.indexed_version) for row in found for item in (item_of(row),)}


def _decided(
    project: str, items: Sequence[str], held: Mapping[str, KnowledgeItem], decide: Decide
) -> tuple[list[Outcome | LearnerError], list[Change]]:
    """One after the other: one that is named twice is met as it became the first time."""
    now, outcomes, changes = dict(held), list[Outcome | LearnerError](), list[Change]()
    for item in items:
        try:
            if item not in now:
                raise UnknownItemError(project, item)
            change = decide(now[item])
        except LearnerError as refused:
            outcomes.append(refused)
            continue
        if change is not None:
            now[item] = change.item
            changes.append(change)
        outcomes.append(Outcome(now[item], indexed=False, repeated=change is None))
    return outcomes, changes


def _refuse_taken(connection: Connection, change: Change) -> None:
    wanted = change.item.external_id
    if wanted is None or (change.before is not None and change.before.external_id == wanted):
        return
    who = select(KNOWLEDGE.c.id).where(
        KNOWLEDGE.c.project == change.item.project, KNOWLEDGE.c.external_id == wanted, KNOWLEDGE.c.id != change.item.id
    )
    if (taken := connection.execute(who).scalar()) is not None:
        raise ExternalIdTakenError(wanted, taken)


def _first(connection: Connection, project: str, once: Once) -> Outcome | None:
    """What the key was answered with; None when it is a new one."""
    found = connection.execute(
        select(IDEMPOTENCY.c.request_digest, HISTORY.c.snapshot, KNOWLEDGE.c.indexed_version)
        .join(HISTORY, (HISTORY.c.id == IDEMPOTENCY.c.id) & (HISTORY.c.version == IDEMPOTENCY.c.version))
        .join(KNOWLEDGE, KNOWLEDGE.c.id == IDEMPOTENCY.c.id)
        .where(IDEMPOTENCY.c.project == project, IDEMPOTENCY.c.key == once.key, IDEMPOTENCY.c.at > once.since)
    )
    if (row := found.one_or_none()) is None:
        return None
    if row.request_digest != once.request_digest:
        raise KeyReusedError(once.key)
    item = KnowledgeItem.model_validate_json(row.snapshot)
    return Outcome(item, indexed=row.indexed_version >= item.version, repeated=True)


def _remember(connection: Connection, item: KnowledgeItem, once: Once) -> None:
    connection.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.at <= once.since))
    connection.execute(
        insert(IDEMPOTENCY).values(
            project=item.project,
            key=once.key,
            request_digest=once.request_digest,
            id=item.id,
            version=item.version,
            at=item.created_at,
        )
    )
