"""Writes versions in bulk, each with its tags, history row, outbox row and audit entry."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.tables import AUDIT, HISTORY, KNOWLEDGE, OUTBOX, TAGS
from skillbus.learner.domain.errors import ConcurrentChangeError
from skillbus.learner.domain.item.lifecycle import ItemChange

Row = dict[str, object]

_AUDIT_LOCK: Final = 0x736B_6275_7361_7564
"""`skbusaud` in ASCII."""
_FIELDS: Final = tuple(KnowledgeItem.model_fields)
_CHANGED: Final = tuple(field for field in _FIELDS if field not in {"id", "project", "created_at", "created_by"})
_UPDATE: Final = (
    update(KNOWLEDGE)
    .where(KNOWLEDGE.c.id == bindparam("of_id"), KNOWLEDGE.c.version == bindparam("seen"))
    .values({field: bindparam(field) for field in (*_CHANGED, "folded")})
)
_UNTAG: Final = delete(TAGS).where(TAGS.c.id == bindparam("of_id"))


def write_changes(connection: Connection, changes: Sequence[ItemChange]) -> None:
    """Write changes in their order, as the last step of a transaction. An item may have several changes.

    Raises:
        ConcurrentChangeError: an item is at another version than before its change.
        sqlalchemy.exc.IntegrityError: the id or external id is taken.
    """
    new = [change.item for change in changes if change.before is None]
    known = [change for change in changes if change.before is not None]
    if new:
        connection.execute(insert(KNOWLEDGE), [_item_row(item) for item in new])
    if known:
        _update_items(connection, known)
    _write_tags(connection, changes)
    if not changes:
        return
    history, outbox, audit = list[Row](), list[Row](), list[Row]()
    for change in changes:
        item = change.item
        version: Row = {"project": item.project, "id": item.id, "version": item.version, "at": item.updated_at}
        outbox.append(version)
        entry = {**version, "actor": item.updated_by, "reason": change.reason}
        history.append({**entry, "change": change.kind, "snapshot": item.model_dump_json()})
        audit.append({**entry, "action": change.kind, "digest": item.digest})
    connection.execute(insert(HISTORY), history)
    connection.execute(insert(OUTBOX), outbox)
    write_audit(connection, audit)


def write_audit(connection: Connection, rows: Sequence[Row]) -> None:
    """Write audit entries. Their sequence follows the order of commits, so that a reader that polls misses none."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_AUDIT_LOCK)))
    connection.execute(insert(AUDIT), list(rows))


def fold_case(text: str) -> str:
    """Return the form in which words are compared without case."""
    return text.casefold()


def _update_items(connection: Connection, changes: Sequence[ItemChange]) -> None:
    rows = [
        {name: value for name, value in _item_row(change.item).items() if name in _CHANGED or name == "folded"}
        | {"of_id": change.item.id, "seen": change.item.version - 1}
        for change in changes
    ]
    done = connection.execute(_UPDATE, rows)
    if done.rowcount not in {-1, len(rows)}:
        raise ConcurrentChangeError
    if done.rowcount == -1:  # asyncpg counts no rows of many statements
        ids = {change.item.id: change.item.version for change in changes}
        now = connection.execute(select(KNOWLEDGE.c.id, KNOWLEDGE.c.version).where(KNOWLEDGE.c.id.in_(ids)))
        if {row.id: row.version for row in now} != ids:
            raise ConcurrentChangeError


def _write_tags(connection: Connection, changes: Sequence[ItemChange]) -> None:
    before = {change.item.id: change.before for change in reversed(changes)}
    after = {change.item.id: change.item.tags for change in changes}
    had = {item: () if was is None else was.tags for item, was in before.items()}
    tagged = [item for item, tags in after.items() if tags != had[item]]
    if old := [{"of_id": item} for item in tagged if had[item]]:
        connection.execute(_UNTAG, old)
    if rows := [{"id": item, "tag": tag} for item in tagged for tag in after[item]]:
        connection.execute(insert(TAGS), rows)


def _item_row(item: KnowledgeItem) -> Row:
    row: Row = {field: getattr(item, field) for field in _FIELDS}
    row["folded"] = fold_case(f"{item.title}\n{item.content}")
    return row
