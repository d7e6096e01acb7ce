"""Writes versions, many at once: each with its tags, its history, its row of the outbox and its line of the audit."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.tables import AUDIT, HISTORY, KNOWLEDGE, OUTBOX, TAGS
from skillbus.learner.domain.errors import ChangedMeanwhileError
from skillbus.learner.domain.item.lifecycle import Change

Row = dict[str, object]

_AUDIT_LOCK: Final = 0x736B_6275_7361_7564
"""`skbusaud` in ASCII."""
_FIELDS: Final = tuple(KnowledgeItem.model_fields)
_CHANGED: Final = tuple(field for field in _FIELDS if field not in {"id", "project", "created_at", "created_by"})
_INSERT: Final = insert(KNOWLEDGE)
_UPDATE: Final = (
    update(KNOWLEDGE)
    .where(KNOWLEDGE.c.id == bindparam("of_id"), KNOWLEDGE.c.version == bindparam("seen"))
    .values({field: bindparam(field) for field in (*_CHANGED, "folded")})
)
_UNTAG: Final = delete(TAGS).where(TAGS.c.id == bindparam("of_id"))


def write_changes(connection: Connection, changes: Sequence[Change]) -> None:
    """Write them in their order, as the last thing of the transaction. An item may have several.

    Raises:
        ChangedMeanwhileError: an item is at another version than before its change.
        sqlalchemy.exc.IntegrityError: its id, or its external id, is taken.
    """
    new = [change.item for change in changes if change.before is None]
    known = [change for change in changes if change.before is not None]
    if new:
        connection.execute(_INSERT, [_row(item) for item in new])
    if known:
        _update(connection, known)
    _tag(connection, changes)
    if changes:
        connection.execute(insert(HISTORY), [_history(change) for change in changes])
        connection.execute(insert(OUTBOX), [_announcement(change.item) for change in changes])
        write_audit(connection, [_audit(change) for change in changes])


def write_audit(connection: Connection, rows: Sequence[Row]) -> None:
    """Lines of the audit. Whoever reads on from the last that they saw misses none: their order is that of commits."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _AUDIT_LOCK})
    connection.execute(insert(AUDIT), list(rows))


def _update(connection: Connection, changes: Sequence[Change]) -> None:
    rows = [_changes(change) for change in changes]
    done = connection.execute(_UPDATE, rows)
    if done.rowcount not in {-1, len(rows)}:
        raise ChangedMeanwhileError
    if done.rowcount == -1:  # the driver does not tell of many at once
        ids = {change.item.id: change.item.version for change in changes}
        now = connection.execute(select(KNOWLEDGE.c.id, KNOWLEDGE.c.version).where(KNOWLEDGE.c.id.in_(ids)))
        if {row.id: row.version for row in now} != ids:
            raise ChangedMeanwhileError


def _tag(connection: Connection, changes: Sequence[Change]) -> None:
    before = {change.item.id: change.before for change in reversed(changes)}
    after = {change.item.id: change.item.tags for change in changes}
    had = {item: () if was is None else was.tags for item, was in before.items()}
    tagged = [item for item, tags in after.items() if tags != had[item]]
    if old := [{"of_id": item} for item in tagged if had[item]]:
        connection.execute(_UNTAG, old)
    if rows := [{"id": item, "tag": tag} for item in tagged for tag in after[item]]:
        connection.execute(insert(TAGS), rows)


def folded(text: str) -> str:
    """As words are compared, whatever their case."""
    return text.casefold()


def _row(item: KnowledgeItem) -> Row:
    row: Row = {field: getattr(item, field) for field in _FIELDS}
    row["folded"] = folded(f"{item.title}\n{item.content}")
    return row


def _changes(change: Change) -> Row:
    row = {field: value for field, value in _row(change.item).items() if field in _CHANGED or field == "folded"}
    return {**row, "of_id": change.item.id, "seen": change.item.version - 1}


def _history(change: Change) -> Row:
    item = change.item
    return {
        "id": item.id,
        "version": item.version,
        "project": item.project,
        "change": change.kind,
        "at": item.updated_at,
        "actor": item.updated_by,
        "reason": change.reason,
        "snapshot": item.model_dump_json(),
    }


def _announcement(item: KnowledgeItem) -> Row:
    return {"project": item.project, "id": item.id, "version": item.version, "at": item.updated_at}


def _audit(change: Change) -> Row:
    item = change.item
    return {
        "at": item.updated_at,
        "actor": item.updated_by,
        "action": change.kind,
        "project": item.project,
        "id": item.id,
        "version": item.version,
        "digest": item.digest,
        "reason": change.reason,
    }
