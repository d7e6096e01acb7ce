"""The audit, read from its table."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.contracts.learner.projects import KnowledgeAuditEntry
from skillbus.learner.adapters.sql.record import reading
from skillbus.learner.adapters.sql.tables import AUDIT


class SqlAuditLog:
    """Reads only: lines are written with what they tell of."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def entries(self, project: str, item: str | None, after: int, limit: int) -> Sequence[KnowledgeAuditEntry]:
        rows = select(AUDIT).where(AUDIT.c.project == project, AUDIT.c.sequence > after)
        if item is not None:
            rows = rows.where(AUDIT.c.id == item)
        async with reading(self._engine) as connection:
            found = await connection.execute(rows.order_by(AUDIT.c.sequence).limit(limit))
            return [KnowledgeAuditEntry.model_validate(dict(row._mapping)) for row in found]  # noqa: SLF001 - public by intent
