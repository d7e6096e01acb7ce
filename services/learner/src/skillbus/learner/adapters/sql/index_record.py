"""The record's side of the index: items and digests for the indexer, indexed versions, and the outbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select, tuple_, update

from skillbus.contracts.learner.index import KnowledgeItemDigest, KnowledgeKey, ListKnowledgeDigests
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import ITEM_COLUMNS, KNOWLEDGE, OUTBOX, parse_item
from skillbus.learner.domain.index.outbox import OutboxRow

_columns = KNOWLEDGE.c
_ITEMS: Final = select(*ITEM_COLUMNS).where(_columns.id.in_(bindparam("ids", expanding=True)))
# A version that the item never had, as after a restore of an older backup, must not count for later versions.
_MARK_INDEXED: Final = (
    update(KNOWLEDGE)
    .where(
        _columns.id == bindparam("item"),
        _columns.project == bindparam("of_project"),
        _columns.indexed_version < bindparam("indexed"),
        _columns.version >= bindparam("indexed"),
    )
    .values(indexed_version=bindparam("indexed"))
)


@dataclass(frozen=True, slots=True)
class SqlIndexRecord:
    """Items, digests and indexed versions, for the indexer. Raises KnowledgeUnavailableError."""

    database: KnowledgeDatabase

    async def read_items(self, keys: Sequence[KnowledgeKey]) -> list[KnowledgeItem]:
        def work(connection: Connection) -> Mapping[tuple[str, str], KnowledgeItem]:
            rows = connection.execute(_ITEMS, {"ids": [key.id for key in keys]})
            return {(item.project, item.id): item for item in map(parse_item, rows)}

        items = await self.database.read(work)
        wanted = dict.fromkeys((key.project, key.id) for key in keys)
        return [items[key] for key in wanted if key in items]

    async def list_digests(self, wanted: ListKnowledgeDigests) -> list[KnowledgeItemDigest]:
        up_to_date = _columns.indexed_version >= _columns.version
        page = select(_columns.project, _columns.id, _columns.version, _columns.digest, up_to_date)
        page = page.where(_columns.status == KnowledgeStatus.ACTIVE.value)
        page = page.order_by(_columns.project, _columns.id).limit(wanted.limit)
        if wanted.project is not None:
            page = page.where(_columns.project == wanted.project)
        if wanted.after is not None:
            page = page.where(tuple_(_columns.project, _columns.id) > tuple_(wanted.after.project, wanted.after.id))

        def work(connection: Connection) -> list[KnowledgeItemDigest]:
            return [
                KnowledgeItemDigest(project=project, id=item, version=version, digest=digest, indexed=bool(indexed))
                for project, item, version, digest, indexed in connection.execute(page)
            ]

        return await self.database.read(work)

    async def mark_indexed(self, refs: Sequence[KnowledgeRef]) -> None:
        if not refs:
            return
        rows = [
            {"item": ref.id, "of_project": ref.project, "indexed": ref.version}
            for ref in sorted(refs, key=lambda ref: ref.id)  # one lock order for all writers prevents deadlocks
        ]

        def work(connection: Connection) -> None:
            connection.execute(_MARK_INDEXED, rows)

        await self.database.write(work)


@dataclass(frozen=True, slots=True)
class SqlOutbox:
    """Rows are not locked while they are published: no writer waits for the stream.

    Two replicas may therefore publish the same rows, which does no harm: the stream drops an event of the same rows,
    and the indexer reads each item as it is.
    """

    database: KnowledgeDatabase

    async def list_oldest(self, limit: int) -> Sequence[OutboxRow]:
        columns = OUTBOX.c
        oldest = select(columns.sequence, columns.project, columns.id, columns.version)
        oldest = oldest.order_by(columns.sequence).limit(limit)

        def work(connection: Connection) -> list[OutboxRow]:
            return [
                OutboxRow(sequence, KnowledgeRef.model_construct(project=project, id=item, version=version))
                for sequence, project, item, version in connection.execute(oldest)
            ]

        return await self.database.read(work)

    async def remove_rows(self, rows: Sequence[OutboxRow]) -> None:
        published = delete(OUTBOX).where(OUTBOX.c.sequence.in_([row.sequence for row in rows]))

        def work(connection: Connection) -> None:
            connection.execute(published)

        await self.database.write(work)
