"""A SQLite or PostgreSQL database: read and write transactions behind one interface.

Each transaction is a synchronous function that gets a SQLAlchemy connection. SQLite runs it in a thread with the
synchronous driver: an asynchronous driver would switch threads for each statement. PostgreSQL runs it on asyncpg.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from skillbus.sql.errors import DatabaseUnavailableError, DatabaseUrlError, translate_failures
from skillbus.sql.schema import Schema, create_or_migrate
from skillbus.sql.sqlite import SqliteTransactions

ResultT = TypeVar("ResultT")

_FORMS: Final = "give sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://user@host/database"


class Transactions(Protocol):
    """Transactions of one engine. They raise the errors of SQLAlchemy and of the driver."""

    async def read(self, work: Callable[[Connection], ResultT]) -> ResultT: ...

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT: ...

    async def close(self) -> None: ...


class Database:
    """An open database. `work` must not keep the connection or a result of it."""

    def __init__(self, url: URL, transactions: Transactions) -> None:
        self._url = url
        self._transactions = transactions
        self._write_problem: str | None = None

    @property
    def write_problem(self) -> str | None:
        """Reason why the last write failed; None after a write that succeeded, and before the first one."""
        return self._write_problem

    async def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Run `work` in a read-only transaction, which sees one snapshot. Raises DatabaseError."""
        with translate_failures(self._url):
            return await self._transactions.read(work)

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Run `work` in a transaction, commit it unless `work` raises, and return its result. Raises DatabaseError.

        SQLite has one writer at a time. On PostgreSQL each statement sees what others have committed (READ COMMITTED).
        The outcome is unknown after a lost connection, and on SQLite to a caller that is cancelled.
        """
        try:
            with translate_failures(self._url):
                result = await self._transactions.write(work)
        except DatabaseUnavailableError as error:
            self._write_problem = str(error)
            raise
        self._write_problem = None
        return result

    async def close(self) -> None:
        """Wait for running transactions of SQLite, and close all connections."""
        await self._transactions.close()


@asynccontextmanager
async def open_database(url: str, schema: Schema) -> AsyncGenerator[Database]:
    """Open the database of a URL after its tables were created or migrated. Raises DatabaseUnavailableError."""
    database = connect_database(url)
    try:
        try:
            await database.write(partial(create_or_migrate, schema=schema))
        except TypeError as error:  # raised by the driver for an unknown parameter of the URL
            raise DatabaseUrlError(f"a parameter of the database's URL does not fit: {error}") from error
        yield database
    finally:
        await database.close()


def connect_database(url: str) -> Database:
    """Return a database without touching its tables: it connects at the first transaction. Raises DatabaseUrlError."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUrlError(f"the database's URL cannot be read: {_FORMS}") from None
    match parsed.drivername:
        case "sqlite":
            _prepare_file(parsed)
            return Database(parsed, SqliteTransactions(parsed))
        case "postgresql" | "postgres":
            # Loading asyncpg and SQLAlchemy's asyncio takes .1 s, which SQLite does not need.
            from skillbus.sql.postgresql import PostgresqlTransactions  # noqa: PLC0415

            return Database(parsed, PostgresqlTransactions(parsed))
    raise DatabaseUrlError(f"no database of kind {parsed.drivername!r} can be used: {_FORMS}")


def _prepare_file(url: URL) -> None:
    """Create the file readable by its owner only; SQLite gives its write-ahead log the same mode."""
    if not url.database or url.database == ":memory:" or url.host:
        raise DatabaseUrlError(f"the URL names no file: {_FORMS}")
    file = Path(url.database)
    if not file.parent.is_dir():
        raise DatabaseUrlError(f"there is no folder {file.parent} for the database {file}: create it first")
    with suppress(OSError):  # the first transaction reports it
        file.touch(mode=0o600)
