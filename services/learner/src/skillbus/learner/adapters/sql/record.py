"""Transactions on the record, whose failures are the learner's: the one place where they become so."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from skillbus.learner.domain.errors import KnowledgeUnavailableError
from skillbus.sql import engine as sql
from skillbus.sql.errors import DatabaseUnavailableError


class SqlRecord:
    """Whether it answers."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def check(self) -> None:
        async with reading(self._engine) as connection:
            await connection.execute(select(1))


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


@contextmanager
def available() -> Generator[None]:
    try:
        yield
    except DatabaseUnavailableError as error:
        raise KnowledgeUnavailableError(str(error)) from error
