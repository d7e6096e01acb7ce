"""Imports and exports in the tables."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.contracts.learner.bulk import ExportKnowledge
from skillbus.contracts.learner.knowledge import ANYBODY, KnowledgeItem
from skillbus.learner.adapters.sql.item.change_writer import write_audit, write_changes
from skillbus.learner.adapters.sql.item.rows import ITEM_COLUMNS, item_of
from skillbus.learner.adapters.sql.record import reading, written
from skillbus.learner.adapters.sql.tables import KNOWLEDGE
from skillbus.learner.domain.bulk.importer import Known, Plan
from skillbus.learner.domain.errors import ChangedMeanwhileError
from skillbus.learner.domain.item.lifecycle import By, Change
from skillbus.sql.errors import ConstraintError

_TRIES: Final = 3
_REASON_CHARACTERS: Final = 2_000
_of = KNOWLEDGE.c


class SqlImports:
    """Many items in one transaction. Raises KnowledgeUnavailableError."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(
        self, project: str, names: Sequence[str], plan: Callable[[Sequence[Known]], Plan], by: By, *, dry_run: bool
    ) -> Plan:
        if dry_run:
            async with reading(self._engine) as connection:
                return plan(await connection.run_sync(partial(_known, project=project, names=names, hold=False)))

        def work(connection: Connection) -> Plan:
            made = plan(_known(connection, project, names, hold=True))
            _write(connection, project, made, by)
            return made

        for _ in range(_TRIES):
            try:
                return await written(self._engine, work)
            except (ConstraintError, ChangedMeanwhileError):
                continue
        raise ChangedMeanwhileError

    async def export(self, wanted: ExportKnowledge, at: datetime) -> list[KnowledgeItem]:
        """A page in the order of ids; the first of an export is in the audit."""
        page = select(*ITEM_COLUMNS).where(_of.project == wanted.project).order_by(_of.id).limit(wanted.limit)
        if wanted.statuses:
            page = page.where(_of.status.in_([status.value for status in wanted.statuses]))
        if wanted.types:
            page = page.where(_of.type.in_([kind.value for kind in wanted.types]))
        if wanted.after is not None:
            page = page.where(_of.id > wanted.after)
        else:
            said = {"at": at, "actor": ANYBODY, "action": "exported", "project": wanted.project, "reason": ""}
            await written(self._engine, partial(write_audit, rows=[said]))
        async with reading(self._engine) as connection:
            return [item_of(row) for row in await connection.execute(page)]


def _known(connection: Connection, project: str, names: Sequence[str], *, hold: bool) -> list[Known]:
    """Items by id or external id. Nobody else changes those that are held until the end of the transaction."""
    ids = set[str]()
    for column in (_of.id, _of.external_id):  # one by one: for either of both SQLite walks the project
        named = select(_of.id).where(_of.project == project, column.in_(names))
        ids.update(connection.execute(named).scalars())
    if not ids:
        return []
    known = select(*ITEM_COLUMNS, _of.indexed_version).where(_of.project == project, _of.id.in_(ids)).order_by(_of.id)
    rows = connection.execute(known.with_for_update() if hold else known)
    return [Known(item_of(row), row.indexed_version) for row in rows]


def _write(connection: Connection, project: str, plan: Plan, by: By) -> None:
    for changes in _rounds(plan.changes):
        write_changes(connection, changes)
    if plan.changes:
        reason = f"{plan.summary()}{': ' if by.reason else ''}{by.reason}"[:_REASON_CHARACTERS]
        said = {"at": by.at, "actor": by.actor, "action": "imported", "project": project, "reason": reason}
        write_audit(connection, [said])


def _rounds(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Each with an item once at most, and with no external id that another item gave up in it."""
    now: list[Change] = []
    items: set[str] = set()
    given_up: set[str] = set()
    for change in changes:
        if change.item.id in items or change.item.external_id in given_up:
            yield now
            now, items, given_up = [], set(), set()
        now.append(change)
        items.add(change.item.id)
        before = change.before.external_id if change.before is not None else None
        if before is not None and before != change.item.external_id:
            given_up.add(before)
    if now:
        yield now
