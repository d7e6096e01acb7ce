"""The outbox in its table."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from sqlalchemy import Connection, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.learner.adapters.sql.record import reading, writing, written
from skillbus.learner.adapters.sql.tables import OUTBOX
from skillbus.learner.domain.index.outbox import Written


class SqlOutbox:
    """On PostgreSQL rows that one replica has taken are skipped by the others until it gives them back.

    On SQLite two processes may tell the same rows: a lock would keep everybody from writing while the stream is slow,
    and a repetition does no harm.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def taken(self, limit: int) -> AsyncGenerator[Sequence[Written]]:
        if self._engine.dialect.name == "postgresql":
            async with writing(self._engine) as connection:
                rows = await _oldest(connection, limit, locked=True)
                yield rows
                await connection.run_sync(_remove, rows)
            return
        async with reading(self._engine) as connection:
            rows = await _oldest(connection, limit, locked=False)
        yield rows
        if rows:
            await written(self._engine, partial(_remove, rows=rows))


async def _oldest(connection: AsyncConnection, limit: int, *, locked: bool) -> list[Written]:
    columns = OUTBOX.c
    oldest = select(columns.sequence, columns.project, columns.id, columns.version)
    oldest = oldest.order_by(columns.sequence).limit(limit)
    found = await connection.execute(oldest.with_for_update(skip_locked=True) if locked else oldest)
    return [
        Written(sequence, KnowledgeRef.model_construct(project=project, id=item, version=version))
        for sequence, project, item, version in found
    ]


def _remove(connection: Connection, rows: Sequence[Written]) -> None:
    if rows:
        connection.execute(delete(OUTBOX).where(OUTBOX.c.sequence.in_([row.sequence for row in rows])))
