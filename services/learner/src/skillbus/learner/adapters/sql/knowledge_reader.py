"""Reads items, lists of items and their versions. Each answer is one snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.learner.items import KnowledgeSummary, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeItem
from skillbus.contracts.learner.versions import KnowledgeVersion
from skillbus.learner.adapters.sql.change_writer import fold_case
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import HISTORY, ITEM_COLUMNS, KNOWLEDGE, TAGS, parse_item
from skillbus.learner.domain.errors import UnknownItemError, UnknownVersionError
from skillbus.learner.domain.item.ports import ItemPage, ListPosition, VersionPage

_EXCERPT: Final = 300
_SUMMARY: Final = (
    *(KNOWLEDGE.c[field] for field in KnowledgeSummary.model_fields if field != "excerpt"),
    func.substr(KNOWLEDGE.c.content, 1, _EXCERPT).label("excerpt"),
)
_FETCHED_VERSIONS: Final = 10
"""Versions fetched from the database at a time: each may hold 100 kB."""


@dataclass(frozen=True, slots=True)
class SqlKnowledgeReader:
    """Items of one project. An item of another project counts as unknown."""

    database: KnowledgeDatabase

    async def get_current(self, project: str, item: str) -> KnowledgeItem:
        return await self.database.read(lambda connection: parse_item(_load_row(connection, project, item)))

    async def get_version(self, project: str, item: str, version: int) -> KnowledgeItem:
        return await self._get_newest(project, item, HISTORY.c.version == version, f"of version {version}")

    async def get_as_of(self, project: str, item: str, moment: datetime) -> KnowledgeItem:
        return await self._get_newest(project, item, HISTORY.c.at <= moment, f"as of {moment.isoformat()}")

    async def list_items(self, wanted: ListKnowledge, start: ListPosition | None) -> ItemPage:
        condition = _build_filter(wanted)
        rows = _walk_from(start, backwards=wanted.before is not None).where(condition)
        count = select(func.count()).select_from(KNOWLEDGE).where(condition)

        def work(connection: Connection) -> ItemPage:
            found = connection.execute(rows.limit(wanted.limit + 1)).mappings().all()
            items = [KnowledgeSummary.model_validate(dict(row)) for row in found[: wanted.limit]]
            return ItemPage(items, connection.execute(count).scalar_one(), more=len(found) > wanted.limit)

        return await self.database.read(work)

    async def list_versions(self, project: str, item: str, before: int | None, limit: int) -> VersionPage:
        rows = select(HISTORY).where(HISTORY.c.project == project, HISTORY.c.id == item)
        if before is not None:
            rows = rows.where(HISTORY.c.version < before)
        rows = rows.order_by(HISTORY.c.version.desc()).limit(limit).execution_options(yield_per=_FETCHED_VERSIONS)

        def work(connection: Connection) -> VersionPage:
            total: int = _load_row(connection, project, item).version
            found, used = list[KnowledgeVersion](), 0
            with connection.execute(rows) as result:
                for row in result:
                    used += len(row.snapshot.encode())
                    if found and used > MESSAGE_BYTES:
                        break
                    found.append(
                        KnowledgeVersion(
                            version=row.version,
                            change=KnowledgeChangeKind(row.change),
                            at=row.at,
                            by=row.actor,
                            reason=row.reason,
                            item=KnowledgeItem.model_validate_json(row.snapshot),
                        )
                    )
            return VersionPage(found, total, more=bool(found) and found[-1].version > 1)

        return await self.database.read(work)

    async def _get_newest(self, project: str, item: str, which: ColumnElement[bool], described: str) -> KnowledgeItem:
        newest = select(HISTORY.c.snapshot).where(HISTORY.c.project == project, HISTORY.c.id == item, which)
        newest = newest.order_by(HISTORY.c.version.desc()).limit(1)

        def work(connection: Connection) -> str:
            snapshot: str | None = connection.execute(newest).scalar()
            if snapshot is None:
                _load_row(connection, project, item)
                raise UnknownVersionError(item, described)
            return snapshot

        return KnowledgeItem.model_validate_json(await self.database.read(work))


def _load_row(connection: Connection, project: str, item: str) -> Row[tuple[object, ...]]:
    query = select(*ITEM_COLUMNS).where(KNOWLEDGE.c.project == project, KNOWLEDGE.c.id == item)
    if (row := connection.execute(query).one_or_none()) is None:
        raise UnknownItemError(project, item)
    return row


def _walk_from(start: ListPosition | None, *, backwards: bool) -> Select[tuple[object, ...]]:
    """Return the query for the summaries behind a position, nearest first; those in front of it if `backwards`."""
    at, item = KNOWLEDGE.c.updated_at, KNOWLEDGE.c.id
    if backwards:
        rows = select(*_SUMMARY).order_by(at.asc(), item.asc())
        return (
            rows if start is None else rows.where(at >= start.updated_at, or_(at > start.updated_at, item > start.item))
        )
    rows = select(*_SUMMARY).order_by(at.desc(), item.desc())
    return rows if start is None else rows.where(at <= start.updated_at, or_(at < start.updated_at, item < start.item))


def _build_filter(wanted: ListKnowledge) -> ColumnElement[bool]:
    columns = KNOWLEDGE.c
    conditions = [columns.project == wanted.project]
    if wanted.types:
        conditions.append(columns.type.in_(wanted.types))
    if wanted.statuses:
        conditions.append(columns.status.in_(wanted.statuses))
    exact = {columns.scope: wanted.scope, columns.source: wanted.source, columns.owner: wanted.owner}
    conditions += [column == value for column, value in exact.items() if value is not None]
    if wanted.tags:
        conditions.append(columns.id.in_(select(TAGS.c.id).where(TAGS.c.tag.in_(wanted.tags))))
    conditions += [columns.id.in_(select(TAGS.c.id).where(TAGS.c.tag == tag)) for tag in wanted.all_tags]
    words: Sequence[str] = tuple(dict.fromkeys(fold_case(wanted.text or "").split()))
    conditions += [columns.folded.contains(word, autoescape=True) for word in words]
    return and_(*conditions)
