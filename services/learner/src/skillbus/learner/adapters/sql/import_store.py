"""Imports and exports in the tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, select

from skillbus.contracts.learner.bulk import ExportKnowledge
from skillbus.contracts.learner.knowledge import ANYBODY, KnowledgeItem
from skillbus.learner.adapters.sql.change_writer import write_audit, write_changes
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import ITEM_COLUMNS, KNOWLEDGE, parse_item
from skillbus.learner.domain.bulk import ImportPlan, RecordedItem
from skillbus.learner.domain.errors import ConcurrentChangeError
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange
from skillbus.sql.errors import ConstraintError

_ATTEMPTS: Final = 3
_REASON_CHARACTERS: Final = 2_000
_columns = KNOWLEDGE.c


@dataclass(frozen=True, slots=True)
class SqlImports:
    """Imports and exports, one transaction for each batch. Raises KnowledgeUnavailableError."""

    database: KnowledgeDatabase

    async def import_items(
        self,
        project: str,
        names: Sequence[str],
        plan: Callable[[Sequence[RecordedItem]], ImportPlan],
        by: Attribution,
        *,
        dry_run: bool,
    ) -> ImportPlan:
        if dry_run:
            return await self.database.read(lambda connection: plan(_load_items(connection, project, names)))

        def work(connection: Connection) -> ImportPlan:
            made = plan(_load_items(connection, project, names, lock=True))
            for changes in _split_rounds(made.changes):
                write_changes(connection, changes)
            if made.changes:
                reason = f"{made.summarize()}{': ' if by.reason else ''}{by.reason}"[:_REASON_CHARACTERS]
                entry = {"at": by.at, "actor": by.actor, "action": "imported", "project": project, "reason": reason}
                write_audit(connection, [entry])
            return made

        for _ in range(_ATTEMPTS):
            try:
                return await self.database.write(work)
            except (ConstraintError, ConcurrentChangeError):
                continue
        raise ConcurrentChangeError

    async def export_items(self, wanted: ExportKnowledge, at: datetime) -> list[KnowledgeItem]:
        page = select(*ITEM_COLUMNS).where(_columns.project == wanted.project)
        page = page.order_by(_columns.id).limit(wanted.limit)
        if wanted.statuses:
            page = page.where(_columns.status.in_([status.value for status in wanted.statuses]))
        if wanted.types:
            page = page.where(_columns.type.in_(wanted.types))
        if wanted.after is not None:
            page = page.where(_columns.id > wanted.after)
        else:
            entry = {"at": at, "actor": ANYBODY, "action": "exported", "project": wanted.project, "reason": ""}
            await self.database.write(lambda connection: write_audit(connection, [entry]))
        return await self.database.read(lambda connection: [parse_item(row) for row in connection.execute(page)])


def _load_items(
    connection: Connection, project: str, names: Sequence[str], *, lock: bool = False
) -> list[RecordedItem]:
    """Return items by id or external id. With `lock`, nobody else changes them until the transaction ends."""
    ids = set[str]()
    for column in (_columns.id, _columns.external_id):  # separately: with OR SQLite walks the whole project
        named = select(_columns.id).where(_columns.project == project, column.in_(names))
        ids.update(connection.execute(named).scalars())
    if not ids:
        return []
    rows = select(*ITEM_COLUMNS, _columns.indexed_version).where(_columns.project == project, _columns.id.in_(ids))
    rows = rows.order_by(_columns.id)
    found = connection.execute(rows.with_for_update() if lock else rows)
    return [RecordedItem(parse_item(row), row.indexed_version) for row in found]


def _split_rounds(changes: Sequence[ItemChange]) -> Iterator[list[ItemChange]]:
    """Yield rounds of changes that can be written at once.

    A round holds each item at most once, and no external id that another item gave up in the same round.
    """
    current: list[ItemChange] = []
    items: set[str] = set()
    given_up: set[str] = set()
    for change in changes:
        if change.item.id in items or change.item.external_id in given_up:
            yield current
            current, items, given_up = [], set(), set()
        current.append(change)
        items.add(change.item.id)
        before = change.before.external_id if change.before is not None else None
        if before is not None and before != change.item.external_id:
            given_up.add(before)
    if current:
        yield current
