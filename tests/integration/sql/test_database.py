"""Transactions behave alike on SQLite and PostgreSQL, whatever fails or waits."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, func, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from skillbus.sql import sqlite
from skillbus.sql.database import Database, connect_database, open_database
from skillbus.sql.errors import (
    ConstraintError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseUnavailableError,
    DatabaseVersionError,
)
from skillbus.sql.schema import Schema

from ...postgres import Postgres, database

METADATA = MetaData()
THINGS = Table("things", METADATA, Column("id", Integer, primary_key=True), Column("what", String(100), nullable=False))
SCHEMA = Schema(METADATA, "things_version", "0001", Path("nowhere"), 1, first_rows=((THINGS, {"id": 1, "what": "a"}),))


@pytest.fixture
async def things(database_url: str) -> AsyncGenerator[Database]:
    async with open_database(database_url, SCHEMA) as opened:
        yield opened


@pytest.fixture
async def file(tmp_path: Path) -> AsyncGenerator[Database]:
    """The same on SQLite alone."""
    async with open_database(f"sqlite:///{tmp_path}/things.db", SCHEMA) as opened:
        yield opened


def insert_things(connection: Connection, *numbers: int) -> int:
    for number in numbers:
        connection.execute(insert(THINGS).values(id=number, what="b"))
    return len(numbers)


def count_things(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(THINGS)).scalar_one()


def execute(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(text(statement))


async def write(to: Database, *numbers: int) -> int:
    return await to.write(lambda connection: insert_things(connection, *numbers))


async def run(to: Database, *statements: str) -> None:
    await to.write(lambda connection: execute(connection, *statements))


async def test_a_transaction_is_committed_and_returns_the_result_of_its_work(things: Database) -> None:
    assert await write(things, 2, 3) == 2
    assert await things.read(count_things) == 3


@pytest.mark.parametrize("fails", [ZeroDivisionError, KeyError, asyncio.CancelledError])
async def test_a_transaction_whose_work_fails_leaves_nothing(things: Database, fails: type[BaseException]) -> None:
    def work(connection: Connection) -> None:
        insert_things(connection, 2)
        raise fails

    with pytest.raises(fails):
        await things.write(work)
    assert await things.read(count_things) == 1


async def test_a_broken_constraint_is_no_unavailable_database(things: Database) -> None:
    with pytest.raises(ConstraintError):
        await write(things, 2, 1)
    assert await things.read(count_things) == 1


async def test_concurrent_writers_all_commit(things: Database) -> None:
    async with asyncio.timeout(10):
        await asyncio.gather(*(write(things, 2 + number) for number in range(40)))
    assert await things.read(count_things) == 41


async def test_concurrent_readers_all_read(things: Database) -> None:
    assert await asyncio.gather(*(things.read(count_things) for _ in range(50))) == [1] * 50


async def test_a_read_sees_one_snapshot(things: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(connection: Connection) -> tuple[int, int]:
        before = count_things(connection)
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go_on.wait(5)
        return before, count_things(connection)

    reading = loop.create_task(things.read(work))
    if await asyncio.to_thread(begun.wait, 0.5):  # SQLite: another transaction commits between the two statements
        await write(things, 2)
        go_on.set()
        assert await reading == (1, 1)
    else:  # PostgreSQL runs in the loop: its isolation level is what can be observed
        level = text("SHOW transaction_isolation")
        assert await things.read(lambda connection: connection.execute(level).scalar_one()) == "repeatable read"
    await reading


async def test_a_read_cannot_write(things: Database) -> None:
    with pytest.raises(DatabaseError):
        await things.read(lambda connection: insert_things(connection, 2))
    assert await things.read(count_things) == 1
    assert things.write_problem is None


async def test_a_failed_read_leaves_the_next_one_whole(things: Database) -> None:
    with pytest.raises(DatabaseUnavailableError):
        await things.read(lambda connection: connection.execute(text("SELECT nothing FROM nowhere")).all())
    assert await things.read(count_things) == 1


async def test_tables_of_a_newer_skillbus_are_left_alone(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "scripts" / "versions").mkdir(parents=True)
    schema = Schema(METADATA, "things_version", "0001", tmp_path / "scripts", 1)
    async with open_database(database_url, schema) as opened:
        await run(opened, "UPDATE things_version SET version_num = '9999'")
    with pytest.raises(DatabaseVersionError, match="a newer skillbus created them"):
        async with open_database(database_url, schema):
            pass


async def test_sqlite_uses_a_write_ahead_log_and_survives_a_power_failure(file: Database) -> None:
    names = ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")

    def work(connection: Connection) -> dict[str, object]:
        return {name: connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in names}

    written = {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 5000, "synchronous": 2}
    assert await file.write(work) == written
    assert (await file.read(work))["busy_timeout"] == 5000


async def test_a_new_file_is_readable_by_its_owner_only(file: Database, tmp_path: Path) -> None:
    await write(file, 2)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("things.db*")}
    assert set(modes.values()) == {0o600}, modes
    assert "things.db-wal" in modes


async def test_the_loop_goes_on_while_sqlite_reads_and_writes(file: Database) -> None:
    assert await file.read(lambda _: threading.current_thread()) is not threading.main_thread()
    assert await file.write(lambda _: threading.current_thread()) is not threading.main_thread()


async def test_a_reader_does_not_wait_for_a_writer_of_sqlite(file: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> int:
        begun.set()
        assert go_on.wait(5)
        return insert_things(connection, 2)

    writing = asyncio.create_task(file.write(slowly))
    await asyncio.to_thread(begun.wait, 5)
    assert await file.read(count_things) == 1
    go_on.set()
    await writing
    assert await file.read(count_things) == 2


async def test_a_file_that_another_process_locks_for_too_long_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_S", 0.1)
    async with open_database(f"sqlite:///{tmp_path}/things.db", SCHEMA) as file:
        other = sqlite3.connect(tmp_path / "things.db", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseBusyError, match="try again"):
                await write(file, 2)
            assert await file.read(count_things) == 1
            other.execute("ROLLBACK")
            await write(file, 2)
        finally:
            other.close()


async def test_a_writer_that_waits_too_long_for_others_of_the_process_is_refused(
    file: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_TURN_S", 0.05)
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> None:
        begun.set()
        assert go_on.wait(5)

    writing = asyncio.create_task(file.write(slowly))
    await asyncio.to_thread(begun.wait, 5)
    with pytest.raises(DatabaseBusyError, match="others of this process"):
        await write(file, 2)
    go_on.set()
    await writing
    await write(file, 2)


async def test_a_cancelled_writer_leaves_the_database_writable(file: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> int:
        begun.set()
        assert go_on.wait(5)
        return insert_things(connection, 2)

    waiting = asyncio.create_task(file.write(slowly))
    await asyncio.to_thread(begun.wait, 5)
    waiting.cancel()
    await asyncio.wait({waiting})
    after = asyncio.create_task(write(file, 3))
    go_on.set()
    assert await after == 1
    assert waiting.cancelled()
    assert await file.read(count_things) == 3


async def test_a_full_disk_is_named_and_committed_data_stays(file: Database) -> None:
    pages = await file.write(lambda connection: connection.execute(text("PRAGMA page_count")).scalar_one())
    many = ", ".join(f"({2 + number}, '{'x' * 100}')" for number in range(1000))
    with pytest.raises(DatabaseFullError, match="free some"):
        await run(file, f"PRAGMA max_page_count = {pages}", f"INSERT INTO things (id, what) VALUES {many}")  # noqa: S608
    assert await file.read(count_things) == 1


async def test_a_read_only_file_is_read_and_refuses_writes(file: Database) -> None:
    assert file.write_problem is None
    with pytest.raises(DatabaseReadOnlyError, match="let its user write") as refused:
        await run(file, "PRAGMA query_only = ON", "INSERT INTO things (id, what) VALUES (2, 'b')")
    assert await file.read(count_things) == 1
    assert file.write_problem == str(refused.value)


async def test_a_write_problem_is_remembered_until_a_write_succeeds(file: Database) -> None:
    pages = "PRAGMA max_page_count = 1"
    with pytest.raises(DatabaseFullError):
        await run(file, pages, f"INSERT INTO things (id, what) VALUES (2, '{'x' * 10_000}')")  # noqa: S608
    with pytest.raises(ConstraintError):
        await write(file, 1)
    assert "no room left" in (file.write_problem or "")
    await run(file, "PRAGMA max_page_count = 10000", "INSERT INTO things (id, what) VALUES (2, 'b')")
    assert file.write_problem is None


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "things.db").write_bytes(b"not a database " * 100)
    with pytest.raises(DatabaseUnavailableError):
        async with open_database(f"sqlite:///{tmp_path}/things.db", SCHEMA):
            pass


async def test_a_row_that_another_transaction_locks_for_too_long_is_busy(postgres: Postgres) -> None:
    async with database(postgres) as url, open_database(url, SCHEMA) as opened:
        engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
        async with engine.begin() as holder:
            await holder.execute(text("UPDATE things SET what = 'held' WHERE id = 1"))
            with pytest.raises(DatabaseBusyError, match="try again"):
                await run(opened, "SET LOCAL lock_timeout = '50ms'", "UPDATE things SET what = 'wanted' WHERE id = 1")
        await engine.dispose()
        assert await opened.read(count_things) == 1


async def test_a_read_only_postgresql_is_read_and_refuses_writes(postgres: Postgres) -> None:
    async with database(postgres) as url:
        async with open_database(url, SCHEMA) as opened:
            await run(opened, f"ALTER DATABASE {make_url(url).database} SET default_transaction_read_only = on")
        again = connect_database(url)
        with pytest.raises(DatabaseReadOnlyError, match="let its user write"):
            await write(again, 2)
        assert await again.read(count_things) == 1
        await again.close()


async def test_two_databases_of_one_process_do_not_share_a_turn(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> int:
        begun.set()
        assert go_on.wait(5)
        return insert_things(connection, 2)

    async with (
        open_database(f"sqlite:///{tmp_path}/one.db", SCHEMA) as one,
        open_database(f"sqlite:///{tmp_path}/two.db", SCHEMA) as two,
    ):
        writing = asyncio.create_task(one.write(slowly))
        await asyncio.to_thread(begun.wait, 5)
        assert await two.write(partial(insert_things)) == 0
        go_on.set()
        await writing
