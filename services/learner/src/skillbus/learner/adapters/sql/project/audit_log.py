"""Reads the audit. Entries are written in the transaction that they describe."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from skillbus.contracts.learner.projects import KnowledgeAuditEntry
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import AUDIT


class SqlAuditLog:
    """The audit of each project."""

    def __init__(self, database: KnowledgeDatabase) -> None:
        self._database = database

    async def list_entries(
        self, project: str, item: str | None, after: int, limit: int
    ) -> Sequence[KnowledgeAuditEntry]:
        rows = select(AUDIT).where(AUDIT.c.project == project, AUDIT.c.sequence > after)
        if item is not None:
            rows = rows.where(AUDIT.c.id == item)
        rows = rows.order_by(AUDIT.c.sequence).limit(limit)

        def work(connection: Connection) -> list[KnowledgeAuditEntry]:
            found = connection.execute(rows)
            return [KnowledgeAuditEntry.model_validate(dict(row._mapping)) for row in found]  # noqa: SLF001 - public by intent

        return await self._database.read(work)
