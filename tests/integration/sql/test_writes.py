"""Whole transactions in one step, on both databases."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.sql.engine import reading
from skillbus.sql.errors import ConstraintError
from skillbus.sql.schema import Schema, open_database
from skillbus.sql.writes import written

METADATA = MetaData()
THINGS = Table("things", METADATA, Column("id", Integer, primary_key=True))
SCHEMA = Schema(METADATA, "things_version", "0001", Path("nowhere"), 1)


@pytest.fixture
async def things(database_url: str) -> AsyncGenerator[AsyncEngine]:
    async with open_database(database_url, SCHEMA) as engine:
        yield engine


def put(connection: Connection, *numbers: int) -> int:
    for number in numbers:
        connection.execute(insert(THINGS).values(id=number))
    return len(numbers)


def put_one(connection: Connection, number: int) -> int:
    return put(connection, number)


async def ids(engine: AsyncEngine) -> list[int]:
    async with reading(engine) as connection:
        return list((await connection.execute(select(THINGS.c.id).order_by(THINGS.c.id))).scalars())


async def test_a_transaction_is_kept_whole_and_gives_what_its_work_does(things: AsyncEngine) -> None:
    assert await written(things, lambda connection: put(connection, 1, 2)) == 2
    assert await ids(things) == [1, 2]


async def test_a_transaction_whose_work_fails_leaves_nothing(things: AsyncEngine) -> None:
    with pytest.raises(ConstraintError):
        await written(things, lambda connection: put(connection, 3, 3))
    with pytest.raises(ZeroDivisionError):
        await written(things, lambda connection: put(connection, 4) // 0)
    assert await ids(things) == []


async def test_many_at_once_are_all_kept(things: AsyncEngine) -> None:
    numbers = range(20)
    assert await asyncio.gather(*(written(things, partial(put_one, number=number)) for number in numbers)) == [1] * 20
    assert await ids(things) == list(numbers)


async def test_who_is_cancelled_leaves_the_next_a_database_to_write_to(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> int:
        begun.set()
        go_on.wait(5)
        return put(connection, 1)

    async with open_database(f"sqlite:///{tmp_path}/things.db", SCHEMA) as engine:
        waiting = asyncio.create_task(written(engine, slowly))
        await asyncio.to_thread(begun.wait, 5)
        waiting.cancel()
        await asyncio.wait({waiting})
        after = asyncio.create_task(written(engine, lambda connection: put(connection, 2)))
        go_on.set()
        assert await after == 1
        assert waiting.cancelled()
        assert await ids(engine) == [1, 2]
