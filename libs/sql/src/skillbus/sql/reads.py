"""Reads that somebody waits for: of several statements, in as few steps as the database allows.

On SQLite the asynchronous driver goes to its thread and back four times for each statement. Here a whole read goes
there once, with a connection of its own, which takes a third off what search waits for.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

from skillbus.sql.engine import reading
from skillbus.sql.failures import failures

ResultT = TypeVar("ResultT")

_THREADS: Final = 4
"""More would wait for one another: Python's own lock is theirs too."""
_BUSY_S: Final = 5.0


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
    reader = create_engine(
        engine.url.set(drivername="sqlite"), connect_args={"timeout": _BUSY_S}, pool_size=_THREADS, hide_parameters=True
    )
    event.listen(reader, "connect", _prepare)
    event.listen(reader, "begin", _begin)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sql-reads") as threads:
        try:
            yield _InThreads(reader, threads)
        finally:
            reader.dispose()


class _InTheLoop:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def run(self, read: Callable[[Connection], ResultT]) -> ResultT:
        async with reading(self._engine) as connection:
            return await connection.run_sync(read)


class _InThreads:
    def __init__(self, engine: Engine, threads: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._threads = threads

    async def run(self, read: Callable[[Connection], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, read)

    def _run(self, read: Callable[[Connection], ResultT]) -> ResultT:
        with failures(self._engine.url), self._engine.connect() as connection, connection.begin():
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
