"""Transactions on a SQLite file: one thread writes, four read."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from skillbus.sql.errors import DatabaseBusyError

ResultT = TypeVar("ResultT")

_READERS: Final = 4
"""More threads would only contend for the GIL."""
_BUSY_S: Final = 5.0
"""Longest wait for a lock that another process holds."""
_RETRY_S: Final = 0.02
_TURN_S: Final = 10.0
"""Longest wait for other writers of this process."""


class SqliteTransactions:
    """Reads on up to four connections, writes on one. Connections and threads are opened when first needed."""

    def __init__(self, url: URL) -> None:
        self._file = url.database
        self._writer = _open_engine(url, 1, _prepare_writer, "BEGIN IMMEDIATE")
        self._readers = _open_engine(url, _READERS, lambda cursor: cursor.execute("PRAGMA query_only = ON"), "BEGIN")
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix="sql-write")
        self._read_threads = ThreadPoolExecutor(_READERS, thread_name_prefix="sql-read")
        self._turn = asyncio.Lock()

    async def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, _run_transaction, self._readers, work)

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        # Writers of this process queue here in order: SQLite's own lock makes them poll, in no order.
        try:
            async with asyncio.timeout(_TURN_S):
                await self._turn.acquire()
        except TimeoutError:
            raise DatabaseBusyError(
                f"the database {self._file} is being written by others of this process: try again"
            ) from None
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._write_thread, _run_transaction, self._writer, work)
        finally:
            self._turn.release()

    async def close(self) -> None:
        for threads in (self._read_threads, self._write_thread):
            await asyncio.to_thread(threads.shutdown)
        self._readers.dispose()
        self._writer.dispose()


def _open_engine(
    url: URL,
    connections: int,
    prepare: Callable[[DBAPICursor], object],
    begin: Literal["BEGIN", "BEGIN IMMEDIATE"],
) -> Engine:
    def connect(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # The driver would begin no transaction for a read, and for a write only at its first statement that writes:
        # what was read before could change.
        connection.isolation_level = None
        with closing(connection.cursor()) as cursor:
            prepare(cursor)

    engine = create_engine(
        url, connect_args={"timeout": _BUSY_S}, pool_size=connections, max_overflow=0, hide_parameters=True
    )
    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _run_transaction(engine: Engine, work: Callable[[Connection], ResultT]) -> ResultT:
    with engine.connect() as connection, connection.begin():
        return work(connection)


def _prepare_writer(cursor: DBAPICursor) -> None:
    _enable_write_ahead_log(cursor)
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")  # a committed transaction survives a power failure


def _enable_write_ahead_log(cursor: DBAPICursor) -> None:
    """Retry while busy: SQLite's own timeout does not apply when two processes open a new file at once."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        else:
            return
        time.sleep(_RETRY_S)
