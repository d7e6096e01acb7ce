"""Reads that somebody waits for: of several statements, in as few steps as the database allows.

On SQLite the asynchronous driver goes to its thread and back four times for each statement. Here a whole read is made
where it is asked for, in the loop, which takes a millisecond; a thread, its wake-up and its turns of Python's lock take
another. A database that is locked is read in a thread, and so is one whose disk was slow a moment ago: the loop may
stand still for one read of a second.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

from skillbus.sql.engine import reading
from skillbus.sql.errors import DatabaseBusyError
from skillbus.sql.failures import failures

ResultT = TypeVar("ResultT")

_THREADS: Final = 4
"""More would wait for one another: Python's own lock is theirs too."""
_BUSY_S: Final = 5.0
_QUICK_S: Final = 0.02
"""A read that took longer is not made in the loop again for as long as `_IN_THREADS_S`."""
_IN_THREADS_S: Final = 1.0


class Reads(Protocol):
    """A database to read."""

    async def run(self, read: Callable[[Connection], ResultT]) -> ResultT:
        """What `read` gives, which sees the database at one moment and keeps nothing of it. Raises DatabaseError."""
        ...


@asynccontextmanager
async def open_reads(engine: AsyncEngine) -> AsyncGenerator[Reads]:
    """Reads of the database of an engine, which is there and has its tables."""
    if engine.dialect.name != "sqlite":
        yield _InTheLoop(engine)
        return
    at_once, waiting = _reader(engine, 0.0, 1), _reader(engine, _BUSY_S, _THREADS)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sql-reads") as threads:
        opened = _AtOnce(at_once, waiting, threads)
        try:
            yield opened
        finally:
            opened.close()
            at_once.dispose()
            waiting.dispose()


def _reader(engine: AsyncEngine, busy_s: float, connections: int) -> Engine:
    url = engine.url.set(drivername="sqlite")
    reader = create_engine(url, connect_args={"timeout": busy_s}, pool_size=connections, hide_parameters=True)
    event.listen(reader, "connect", _prepare)
    event.listen(reader, "begin", _begin)
    return reader


class _InTheLoop:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def run(self, read: Callable[[Connection], ResultT]) -> ResultT:
        async with reading(self._engine) as connection:
            return await connection.run_sync(read)


class _AtOnce:
    def __init__(self, at_once: Engine, waiting: Engine, threads: ThreadPoolExecutor) -> None:
        self._at_once = at_once
        self._waiting = waiting
        self._threads = threads
        self._open: Connection | None = None
        """Kept between reads in the loop."""
        self._in_threads_until = 0.0

    async def run(self, read: Callable[[Connection], ResultT]) -> ResultT:
        started = time.monotonic()
        if started >= self._in_threads_until:
            try:
                return self._read_here(read)
            except DatabaseBusyError:
                self._in_threads_until = started + _IN_THREADS_S
            finally:
                if time.monotonic() - started > _QUICK_S:
                    self._in_threads_until = started + _IN_THREADS_S
        return await asyncio.get_running_loop().run_in_executor(self._threads, _read, self._waiting, read)

    def _read_here(self, read: Callable[[Connection], ResultT]) -> ResultT:
        with failures(self._at_once.url):
            try:
                if self._open is None:
                    self._open = self._at_once.connect()
                with self._open.begin():
                    return read(self._open)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close what is kept."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _read(engine: Engine, read: Callable[[Connection], ResultT]) -> ResultT:
    with failures(engine.url), engine.connect() as connection, connection.begin():
        return read(connection)


def _prepare(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver begins no transaction for a read: each statement would see another moment.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA query_only = ON")
    finally:
        cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
