"""From a URL to an engine: the driver, the pragmas of SQLite, and errors that show no password."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from skillbus.embedder.domain.registry_errors import RegistryUnavailableError, RegistryUrlError

_BUSY_S: Final = 5.0
"""How long one waits for another that writes."""
_CONNECT_S: Final = 5.0
_COMMAND_S: Final = 10.0
_WRITES: Final = "skillbus_writes"
_FORMS: Final = "give sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://user@host/database"


def make_engine(url: str) -> AsyncEngine:
    """An engine that has not connected yet.

    Raises:
        RegistryUrlError: no URL of a database, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise RegistryUrlError(f"the database's URL cannot be read: {_FORMS}") from None
    match parsed.drivername:
        case "sqlite":
            return _sqlite(parsed)
        case "postgresql" | "postgres":
            return _postgresql(parsed)
    raise RegistryUrlError(f"no database of kind {parsed.drivername!r} can be used: {_FORMS}")


def _sqlite(url: URL) -> AsyncEngine:
    if not url.database or url.database == ":memory:" or url.host:
        raise RegistryUrlError(f"the URL names no file: {_FORMS}")
    folder = Path(url.database).parent
    if not folder.is_dir():
        raise RegistryUrlError(f"there is no folder {folder} for the database {url.database}: make it first")
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"), connect_args={"timeout": _BUSY_S}, hide_parameters=True
    )
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would begin transactions by itself, at the first write: too late to read and write in one.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA journal_mode = WAL")
    finally:
        cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(url: URL) -> AsyncEngine:
    query = dict(url.query)
    if (sslmode := query.pop("sslmode", None)) is not None:  # libpq's name for what asyncpg calls ssl
        query["ssl"] = sslmode
    try:
        return create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=query),
            connect_args={"timeout": _CONNECT_S, "command_timeout": _COMMAND_S},
            pool_pre_ping=True,
            pool_timeout=_COMMAND_S,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise RegistryUrlError(
            "PostgreSQL needs a driver that is not installed: pip install 'skillbus-embedder[postgres]'"
        ) from error


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A transaction that sees the database at one moment. Raises RegistryUnavailableError."""
    with unavailable(engine.url):
        async with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with connection.begin():
                yield connection


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A transaction that is kept when it ends without an error. Raises RegistryUnavailableError."""
    with unavailable(engine.url):
        async with engine.connect() as connection:
            await connection.execution_options(**{_WRITES: True})
            async with connection.begin():
                yield connection


@contextmanager
def unavailable(url: URL) -> Generator[None]:
    """What a database does instead of answering, as the domain's error, without the password of its URL."""
    try:
        yield
    except DBAPIError as error:
        raise RegistryUnavailableError(_advice(url, error.orig or error)) from error
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        raise RegistryUnavailableError(_advice(url, error)) from error


def _advice(url: URL, reason: BaseException) -> str:
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database} cannot be used: {reason}; see that its folder is there and may be written"
    where = url.render_as_string(hide_password=True)
    return f"the database {where} does not answer: {reason}; see that it runs and that user and password are right"
