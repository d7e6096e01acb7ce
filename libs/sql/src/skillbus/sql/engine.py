"""From a URL to an engine, and its transactions: one that reads, one that writes."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import AdaptedConnection, Connection, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from skillbus.sql.errors import DatabaseBusyError, DatabaseUnavailableError, DatabaseUrlError
from skillbus.sql.failures import failures
from skillbus.sql.writer import Writer

_BUSY_S: Final = 5.0
"""How long one waits for another process that writes."""
_LOOK_AGAIN_S: Final = 0.02
_TURN_S: Final = 10.0
"""How long one waits for others of this process that write, or for a connection."""
_CONNECT_S: Final = 5.0
_COMMAND_S: Final = 10.0
_WRITES: Final = "skillbus_writes"
_TURNS: Final = "skillbus_turns"
_LAST: Final = "skillbus_last_write"
_WRITER: Final = "skillbus_writer"
_FORMS: Final = "give sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://user@host/database"


@dataclass(slots=True)
class _LastWrite:
    """Of an engine, by whichever task."""

    problem: str | None = None


def make_engine(url: str) -> AsyncEngine:
    """An engine that has not connected yet.

    Raises:
        DatabaseUrlError: no URL of a database, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUrlError(f"the database's URL cannot be read: {_FORMS}") from None
    match parsed.drivername:
        case "sqlite":
            return _sqlite(parsed)
        case "postgresql" | "postgres":
            return _postgresql(parsed)
    raise DatabaseUrlError(f"no database of kind {parsed.drivername!r} can be used: {_FORMS}")


def _sqlite(url: URL) -> AsyncEngine:
    if not url.database or url.database == ":memory:" or url.host:
        raise DatabaseUrlError(f"the URL names no file: {_FORMS}")
    folder = Path(url.database).parent
    if not folder.is_dir():
        raise DatabaseUrlError(f"there is no folder {folder} for the database {url.database}: make it first")
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        connect_args={"timeout": _BUSY_S},
        # Writers of one process wait here, in their order: SQLite makes them sleep and try again, in none.
        execution_options={_TURNS: asyncio.Lock(), _LAST: _LastWrite(), _WRITER: _sqlite_writer(url)},
        pool_timeout=_TURN_S,
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _sqlite_writer(url: URL) -> Writer:
    engine = create_engine(
        url.set(drivername="sqlite"), connect_args={"timeout": _BUSY_S}, pool_size=1, hide_parameters=True
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_writing_sqlite)
    return Writer(engine)


def _write_ahead(connection: DBAPIConnection, cursor: DBAPICursor) -> None:
    """Set it, where SQLite does not wait by itself: who opens a new file at the same moment may be setting it too."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        else:
            return
        if isinstance(connection, AdaptedConnection):
            connection.run_async(lambda _: asyncio.sleep(_LOOK_AGAIN_S))
        else:
            time.sleep(_LOOK_AGAIN_S)


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would begin transactions by itself, at the first write: too late to read and write in one.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA foreign_keys = ON")
        _write_ahead(connection, cursor)
        cursor.execute("PRAGMA synchronous = FULL")  # what was answered survives the loss of power
    finally:
        cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if connection.get_execution_options().get(_WRITES, False):
        _begin_writing_sqlite(connection)
    else:
        connection.exec_driver_sql("BEGIN")


def _begin_writing_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _postgresql(url: URL) -> AsyncEngine:
    query = dict(url.query)
    if (sslmode := query.pop("sslmode", None)) is not None:  # libpq's name for what asyncpg calls ssl
        query["ssl"] = sslmode
    try:
        return create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=query),
            connect_args={"timeout": _CONNECT_S, "command_timeout": _COMMAND_S},
            execution_options={_LAST: _LastWrite()},
            pool_pre_ping=True,
            pool_timeout=_TURN_S,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise DatabaseUrlError(
            "PostgreSQL needs a driver that is not installed: pip install 'skillbus-sql[postgres]'"
        ) from error


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A transaction that sees the database at one moment. Raises DatabaseError."""
    with failures(engine.url):
        async with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with connection.begin():
                yield connection


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A transaction that is kept when it ends without an error.

    On SQLite nobody else writes meanwhile; on PostgreSQL it sees what others have committed by each statement.

    Raises:
        DatabaseError: it is not kept; or, when the connection was lost, that is not known.
    """
    async with turn(engine):
        with remembered(engine), failures(engine.url):
            async with engine.connect() as connection:
                await connection.execution_options(**{_WRITES: True})
                async with connection.begin():
                    yield connection


def unwritable(engine: AsyncEngine) -> str | None:
    """Why the database could not keep what was last written; None when it did, and before anything was."""
    last = engine.sync_engine.get_execution_options().get(_LAST)
    return last.problem if isinstance(last, _LastWrite) else None


def writer_of(engine: AsyncEngine) -> Writer | None:
    """The thread that writes to a file of SQLite; None on PostgreSQL."""
    writer = engine.sync_engine.get_execution_options().get(_WRITER)
    return writer if isinstance(writer, Writer) else None


async def dispose(engine: AsyncEngine) -> None:
    """Let go of the database."""
    if (writer := writer_of(engine)) is not None:
        await asyncio.to_thread(writer.close)
    await engine.dispose()


@contextmanager
def remembered(engine: AsyncEngine) -> Generator[None]:
    """What keeps a write from being kept is told by `unwritable` until one is."""
    last = engine.sync_engine.get_execution_options().get(_LAST)
    try:
        yield
    except DatabaseUnavailableError as error:
        if isinstance(last, _LastWrite):
            last.problem = str(error)
        raise
    if isinstance(last, _LastWrite):
        last.problem = None


@asynccontextmanager
async def turn(engine: AsyncEngine) -> AsyncGenerator[None]:
    """Nobody else of this process writes meanwhile. Raises DatabaseBusyError."""
    turns = engine.sync_engine.get_execution_options().get(_TURNS)
    if not isinstance(turns, asyncio.Lock):
        yield
        return
    try:
        async with asyncio.timeout(_TURN_S):
            await turns.acquire()
    except TimeoutError:
        raise DatabaseBusyError(
            f"the database {engine.url.database} is being written by others of this process: try again"
        ) from None
    try:
        yield
    finally:
        turns.release()
