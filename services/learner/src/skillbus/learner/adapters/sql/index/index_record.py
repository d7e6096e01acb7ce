"""What the indexer reads of the record, each answer in one transaction, and which versions the index has."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from sqlalchemy import Connection, bindparam, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.contracts.learner.index import KnowledgeItemDigest, KnowledgeKey, ListKnowledgeDigests
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.learner.adapters.sql.item.rows import ITEM_COLUMNS, item_of
from skillbus.learner.adapters.sql.record import reading, written
from skillbus.learner.adapters.sql.tables import KNOWLEDGE

_of = KNOWLEDGE.c
_WHOLE: Final = select(*ITEM_COLUMNS).where(_of.id.in_(bindparam("ids", expanding=True)))
# A version that the item never had, as in a record that came back from a backup, says nothing of those to come.
_INDEXED: Final = (
    update(KNOWLEDGE)
    .where(
        _of.id == bindparam("item"),
        _of.project == bindparam("of_project"),
        _of.indexed_version < bindparam("indexed"),
        _of.version >= bindparam("indexed"),
    )
    .values(indexed_version=bindparam("indexed"), indexed_at=bindparam("told_at"))
)


class SqlIndexRecord:
    """The record, for the index."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def read(self, keys: Sequence[KnowledgeKey]) -> list[KnowledgeItem]:
        async with reading(self._engine) as connection:
            rows = await connection.execute(_WHOLE, {"ids": [key.id for key in keys]})
            items = {(item.project, item.id): item for item in map(item_of, rows)}
        wanted = dict.fromkeys((key.project, key.id) for key in keys)
        return [items[key] for key in wanted if key in items]

    async def digests(self, wanted: ListKnowledgeDigests) -> list[KnowledgeItemDigest]:
        page = select(_of.project, _of.id, _of.version, _of.digest, _of.indexed_version >= _of.version)
        page = page.where(_of.status == KnowledgeStatus.ACTIVE.value)
        page = page.order_by(_of.project, _of.id).limit(wanted.limit)
        if wanted.project is not None:
            page = page.where(_of.project == wanted.project)
        if wanted.after is not None:
            page = page.where(tuple_(_of.project, _of.id) > tuple_(wanted.after.project, wanted.after.id))
        async with reading(self._engine) as connection:
            return [
                KnowledgeItemDigest(project=project, id=item, version=version, digest=digest, indexed=bool(indexed))
                for project, item, version, digest, indexed in await connection.execute(page)
            ]

    async def indexed(self, refs: Sequence[KnowledgeRef], at: datetime) -> None:
        if refs:
            # By id: two who write the same items do not wait for one another.
            ordered = sorted(refs, key=lambda ref: ref.id)
            rows = [
                {"item": ref.id, "of_project": ref.project, "indexed": ref.version, "told_at": at} for ref in ordered
            ]
            await written(self._engine, partial(_mark, rows=rows))


def _mark(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    connection.execute(_INDEXED, rows)
