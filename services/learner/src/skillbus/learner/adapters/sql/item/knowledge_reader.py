"""Items, their lists and their history, read from the tables."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Row, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from skillbus.contracts.learner.items import KnowledgeSummary, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeItem
from skillbus.contracts.learner.versions import KnowledgeVersion
from skillbus.learner.adapters.sql.item.change_writer import folded
from skillbus.learner.adapters.sql.item.rows import ITEM_COLUMNS, item_of
from skillbus.learner.adapters.sql.record import reading
from skillbus.learner.adapters.sql.tables import HISTORY, KNOWLEDGE, TAGS
from skillbus.learner.domain.errors import UnknownItemError, UnknownVersionError
from skillbus.learner.domain.item.ports import Page, Place, Versions
from skillbus.learner.domain.message_size import MESSAGE_BYTES

_EXCERPT: Final = 300
_SUMMARY: Final = (
    *(KNOWLEDGE.c[field] for field in KnowledgeSummary.model_fields if field != "excerpt"),
    func.substr(KNOWLEDGE.c.content, 1, _EXCERPT).label("excerpt"),
)
_AT_ONCE: Final = 10
"""Versions that are taken from the database at a time: each may hold 100 kB."""


class SqlKnowledgeReader:
    """Each answer is of one moment."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def current(self, project: str, item: str) -> KnowledgeItem:
        async with reading(self._engine) as connection:
            return item_of(await _row(connection, project, item))

    async def at_version(self, project: str, item: str, version: int) -> KnowledgeItem:
        return await self._then(project, item, HISTORY.c.version == version, f"of version {version}")

    async def as_of(self, project: str, item: str, moment: datetime) -> KnowledgeItem:
        return await self._then(project, item, HISTORY.c.at <= moment, f"as of {moment.isoformat()}")

    async def page(self, wanted: ListKnowledge, after: Place | None) -> Page:
        columns, fits = KNOWLEDGE.c, _fits(wanted)
        rows = select(*_SUMMARY).where(fits).order_by(columns.updated_at.desc(), columns.id.desc())
        if after is not None:
            behind = or_(columns.updated_at < after.updated_at, columns.id < after.item)
            rows = rows.where(columns.updated_at <= after.updated_at, behind)
        async with reading(self._engine) as connection:
            found = (await connection.execute(rows.limit(wanted.limit + 1))).all()
            total = (await connection.execute(select(func.count()).select_from(KNOWLEDGE).where(fits))).scalar_one()
        return Page([_summary(row) for row in found[: wanted.limit]], total, more=len(found) > wanted.limit)

    async def versions(self, project: str, item: str, before: int | None, limit: int) -> Versions:
        rows = select(HISTORY).where(HISTORY.c.project == project, HISTORY.c.id == item)
        if before is not None:
            rows = rows.where(HISTORY.c.version < before)
        async with reading(self._engine) as connection:
            total: int = (await _row(connection, project, item)).version
            found, used = list[KnowledgeVersion](), 0
            ordered = rows.order_by(HISTORY.c.version.desc()).limit(limit).execution_options(yield_per=_AT_ONCE)
            async with connection.stream(ordered) as result:
                async for row in result:
                    used += len(row.snapshot.encode())
                    if found and used > MESSAGE_BYTES:
                        break
                    found.append(_version(row))
        return Versions(found, total, more=bool(found) and found[-1].version > 1)

    async def _then(self, project: str, item: str, which: ColumnElement[bool], said: str) -> KnowledgeItem:
        async with reading(self._engine) as connection:
            newest = (
                select(HISTORY.c.snapshot)
                .where(HISTORY.c.project == project, HISTORY.c.id == item, which)
                .order_by(HISTORY.c.version.desc())
                .limit(1)
            )
            found = (await connection.execute(newest)).scalar()
            if found is None:
                await _row(connection, project, item)
                raise UnknownVersionError(item, said)
        return KnowledgeItem.model_validate_json(found)


async def _row(connection: AsyncConnection, project: str, item: str) -> Row[tuple[object, ...]]:
    found = await connection.execute(
        select(*ITEM_COLUMNS).where(KNOWLEDGE.c.project == project, KNOWLEDGE.c.id == item)
    )
    if (row := found.one_or_none()) is None:
        raise UnknownItemError(project, item)
    return row


def _fits(wanted: ListKnowledge) -> ColumnElement[bool]:
    columns = KNOWLEDGE.c
    each = [columns.project == wanted.project]
    if wanted.types:
        each.append(columns.type.in_(wanted.types))
    if wanted.statuses:
        each.append(columns.status.in_(wanted.statuses))
    exact = {columns.scope: wanted.scope, columns.source: wanted.source, columns.owner: wanted.owner}
    each += [column == value for column, value in exact.items() if value is not None]
    if wanted.tags:
        each.append(columns.id.in_(select(TAGS.c.id).where(TAGS.c.tag.in_(wanted.tags))))
    each += [columns.id.in_(select(TAGS.c.id).where(TAGS.c.tag == tag)) for tag in wanted.all_tags]
    each += [columns.folded.contains(word, autoescape=True) for word in _words(wanted.text)]
    return and_(*each)


def _words(text: str | None) -> Sequence[str]:
    return tuple(dict.fromkeys(folded(text or "").split()))


def _summary(row: Row[tuple[object, ...]]) -> KnowledgeSummary:
    return KnowledgeSummary.model_validate(dict(row._mapping))  # noqa: SLF001 - public, in spite of its name


def _version(row: Row[tuple[object, ...]]) -> KnowledgeVersion:
    return KnowledgeVersion(
        version=row.version,
        change=KnowledgeChangeKind(row.change),
        at=row.at,
        by=row.actor,
        reason=row.reason,
        item=KnowledgeItem.model_validate_json(row.snapshot),
    )
