"""Transactions on the record, whose failures are the learner's: the one place where they become so."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from skillbus.learner.adapters.sql.tables import IDEMPOTENCY
from skillbus.learner.domain.errors import KnowledgeUnavailableError
from skillbus.sql import engine as sql
from skillbus.sql import writes as sql_writes
from skillbus.sql.errors import DatabaseUnavailableError

ResultT = TypeVar("ResultT")

_NOBODYS: Final[Mapping[str, object]] = {
    "project": "",  # none is called so
    "key": "",
    "request_digest": "",
    "id": "",
    "version": 0,
    "at": datetime(1970, 1, 1, tzinfo=UTC),
}


class SqlRecord:
    """Whether it answers."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def check(self) -> None:
        async with reading(self._engine) as connection:
            await connection.execute(select(1))
        if (problem := sql.unwritable(self._engine)) is not None:
            raise KnowledgeUnavailableError(problem)

    async def try_again(self) -> bool:
        """Write a row and take it away again if nothing could be written last: nobody else may try for long.

        Raises KnowledgeUnavailableError: it still cannot be written.
        """
        if sql.unwritable(self._engine) is not None:
            await written(self._engine, _try_to_write)
        return False


def _try_to_write(connection: Connection) -> None:
    connection.execute(insert(IDEMPOTENCY).values(_NOBODYS))
    connection.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.project == _NOBODYS["project"]))


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A transaction that sees the record at one moment. Raises KnowledgeUnavailableError."""
    with available():
        async with sql.reading(engine) as connection:
            yield connection


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A transaction that is kept when it ends without an error.

    Raises:
        KnowledgeUnavailableError: the database does not answer, or cannot keep it.
        ConstraintError: somebody else wrote the same meanwhile.
    """
    with available():
        async with sql.writing(engine) as connection:
            yield connection


async def written(engine: AsyncEngine, work: Callable[[Connection], ResultT]) -> ResultT:
    """What `work` gives, in such a transaction, in as few steps as the database allows. Raises as `writing`."""
    with available():
        return await sql_writes.written(engine, work)


@contextmanager
def available() -> Generator[None]:
    try:
        yield
    except DatabaseUnavailableError as error:
        raise KnowledgeUnavailableError(str(error)) from error
