"""The outbox in its table."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import OUTBOX
from skillbus.learner.domain.index.outbox import OutboxRow


class SqlOutbox:
    """Rows are not locked while they are published: no writer waits for the stream.

    Two replicas may therefore publish the same rows, which does no harm: the stream drops an event of the same rows,
    and the indexer reads each item as it is.
    """

    def __init__(self, database: KnowledgeDatabase) -> None:
        self._database = database

    async def list_oldest(self, limit: int) -> Sequence[OutboxRow]:
        columns = OUTBOX.c
        oldest = select(columns.sequence, columns.project, columns.id, columns.version)
        oldest = oldest.order_by(columns.sequence).limit(limit)

        def work(connection: Connection) -> list[OutboxRow]:
            return [
                OutboxRow(sequence, KnowledgeRef.model_construct(project=project, id=item, version=version))
                for sequence, project, item, version in connection.execute(oldest)
            ]

        return await self._database.read(work)

    async def remove_rows(self, rows: Sequence[OutboxRow]) -> None:
        published = delete(OUTBOX).where(OUTBOX.c.sequence.in_([row.sequence for row in rows]))

        def work(connection: Connection) -> None:
            connection.execute(published)

        await self._database.write(work)
