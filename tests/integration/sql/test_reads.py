"""Reads in as few steps as a database allows, and in a thread where SQLite would keep the loop waiting."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.sql.engine import make_engine, writing
from skillbus.sql.errors import DatabaseError, DatabaseUnavailableError
from skillbus.sql.reads import Reads, open_reads

METADATA = MetaData()
NUMBERS = Table("numbers", METADATA, Column("number", Integer, primary_key=True))


@pytest.fixture
async def engine(database_url: str) -> AsyncGenerator[AsyncEngine]:
    engine = make_engine(database_url)
    async with writing(engine) as connection:
        await connection.run_sync(METADATA.create_all)
    yield engine
    await engine.dispose()


@pytest.fixture
async def reads(engine: AsyncEngine) -> AsyncGenerator[Reads]:
    async with open_reads(engine) as opened:
        yield opened


async def write(engine: AsyncEngine, number: int) -> None:
    async with writing(engine) as connection:
        await connection.execute(insert(NUMBERS).values(number=number))


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(NUMBERS)).scalar_one()


async def test_what_was_written_before_is_read(engine: AsyncEngine, reads: Reads) -> None:
    for number in range(3):
        assert await reads.run(count) == number
        await write(engine, number)


async def test_a_read_sees_one_moment(engine: AsyncEngine, reads: Reads) -> None:
    if engine.dialect.name != "sqlite":
        pytest.skip("on PostgreSQL it is `reading`, in the loop: nothing can be awaited in it")
    other = sqlite3.connect(str(engine.url.database))

    def read(connection: Connection) -> tuple[int, int]:
        before = count(connection)
        with other:
            other.execute("INSERT INTO numbers VALUES (1)")
        return before, count(connection)

    assert await reads.run(read) == (0, 0)
    other.close()
    assert await reads.run(count) == 1


def thread_of(_: Connection) -> threading.Thread:
    return threading.current_thread()


async def test_a_read_of_sqlite_is_made_where_it_is_asked_for(engine: AsyncEngine, reads: Reads) -> None:
    if engine.dialect.name == "sqlite":
        assert await reads.run(thread_of) is threading.current_thread()


async def test_a_database_that_is_locked_does_not_keep_the_loop_waiting(engine: AsyncEngine, reads: Reads) -> None:
    if engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL lets everybody read")
    await write(engine, 1)
    await engine.dispose()
    holder = sqlite3.connect(str(engine.url.database), isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    reading = asyncio.create_task(reads.run(count))
    longest, last = 0.0, time.monotonic()
    for _ in range(30):
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert not reading.done()
    assert longest < 1  # whoever waits in the loop waits for five
    holder.close()
    async with asyncio.timeout(8):
        assert await reading == 1


async def test_after_a_slow_read_the_next_ones_are_made_in_threads_for_a_while(
    engine: AsyncEngine, reads: Reads
) -> None:
    if engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL is read without threads")
    await reads.run(lambda _: time.sleep(0.05))
    assert await reads.run(thread_of) is not threading.current_thread()
    await asyncio.sleep(1)
    assert await reads.run(thread_of) is threading.current_thread()


async def test_several_read_at_once(engine: AsyncEngine, reads: Reads) -> None:
    await write(engine, 1)
    assert await asyncio.gather(*(reads.run(count) for _ in range(50))) == [1] * 50


async def test_nothing_is_written(engine: AsyncEngine, reads: Reads) -> None:
    with pytest.raises(DatabaseError):
        await reads.run(lambda connection: connection.execute(insert(NUMBERS).values(number=1)).rowcount)
    assert await reads.run(count) == 0


async def test_what_fails_leaves_the_next_read_whole(engine: AsyncEngine, reads: Reads) -> None:
    with pytest.raises(DatabaseUnavailableError):
        await reads.run(lambda connection: connection.execute(text("SELECT nothing FROM nowhere")).all())
    assert await reads.run(count) == 0
