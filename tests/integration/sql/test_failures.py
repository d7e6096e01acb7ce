"""A database that is locked, full, read-only or broken is an error that says what to do."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.sql import engine as engines
from skillbus.sql.engine import make_engine, reading, unwritable, writing
from skillbus.sql.errors import (
    ConstraintError,
    DatabaseBusyError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseUnavailableError,
    DatabaseVersionError,
)
from skillbus.sql.schema import Schema, open_database

from ...postgres import Postgres, database

METADATA = MetaData()
THINGS = Table("things", METADATA, Column("id", Integer, primary_key=True), Column("what", String(100), nullable=False))
SCHEMA = Schema(METADATA, "things_version", "0001", Path("nowhere"), 1, first_rows=((THINGS, {"id": 1, "what": "a"}),))


@pytest.fixture
async def things(database_url: str) -> AsyncGenerator[AsyncEngine]:
    async with open_database(database_url, SCHEMA) as engine:
        yield engine


@pytest.fixture
async def file(tmp_path: Path) -> AsyncGenerator[AsyncEngine]:
    """The same on SQLite alone."""
    async with open_database(f"sqlite:///{tmp_path}/things.db", SCHEMA) as engine:
        yield engine


async def write(engine: AsyncEngine, number: int, what: str = "b") -> None:
    async with writing(engine) as connection:
        await connection.execute(insert(THINGS).values(id=number, what=what))


async def run(engine: AsyncEngine, *statements: str) -> None:
    """In one transaction."""
    async with writing(engine) as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def count(engine: AsyncEngine) -> int:
    async with reading(engine) as connection:
        return len((await connection.execute(select(THINGS.c.id))).all())


async def test_sqlite_writes_ahead_and_loses_nothing_that_it_kept(file: AsyncEngine) -> None:
    async with reading(file) as connection:
        pragmas = {
            name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 5000, "synchronous": 2}


async def test_a_new_file_is_its_owners_alone(file: AsyncEngine, tmp_path: Path) -> None:
    await write(file, 2)
    made = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("things.db*")}
    assert set(made.values()) == {0o600}, made
    assert "things.db-wal" in made


async def test_a_rule_of_the_tables_that_is_broken_is_told_from_a_database_that_is_away(things: AsyncEngine) -> None:
    with pytest.raises(ConstraintError):
        await write(things, 1)
    assert await count(things) == 1


async def test_a_file_that_another_process_writes_for_too_long_is_busy(
    file: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_BUSY_S", 0.1)
    quick = make_engine(file.url.set(drivername="sqlite").render_as_string())
    other = sqlite3.connect(str(file.url.database), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusyError, match="try again"):
            await write(quick, 2)
        other.execute("ROLLBACK")
        await write(quick, 2)
    finally:
        other.close()
        await quick.dispose()


async def test_a_row_that_another_holds_for_too_long_is_busy(postgres: Postgres) -> None:
    async with database(postgres) as url, open_database(url, SCHEMA) as engine:
        async with writing(engine) as holder:
            await holder.execute(text("UPDATE things SET what = 'held' WHERE id = 1"))
            with pytest.raises(DatabaseBusyError, match="try again"):
                await run(engine, "SET LOCAL lock_timeout = '50ms'", "UPDATE things SET what = 'wanted' WHERE id = 1")
        assert await count(engine) == 1


async def test_a_full_disk_is_named_and_what_was_there_stays(file: AsyncEngine) -> None:
    async with writing(file) as connection:
        pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
    many = ", ".join(f"({2 + number}, '{'x' * 100}')" for number in range(1000))
    with pytest.raises(DatabaseFullError, match="free some"):
        await run(file, f"PRAGMA max_page_count = {pages}", f"INSERT INTO things (id, what) VALUES {many}")  # noqa: S608
    assert await count(file) == 1


async def test_a_file_that_may_only_be_read_is_read_and_not_written(file: AsyncEngine) -> None:
    assert unwritable(file) is None
    with pytest.raises(DatabaseReadOnlyError, match="let its user write") as refused:
        await run(file, "PRAGMA query_only = ON", "INSERT INTO things (id, what) VALUES (2, 'b')")
    assert await count(file) == 1
    assert unwritable(file) == str(refused.value)


async def test_what_could_not_be_kept_is_remembered_until_something_is(file: AsyncEngine) -> None:
    pages = "PRAGMA max_page_count = 1"
    with pytest.raises(DatabaseFullError):
        await run(file, pages, f"INSERT INTO things (id, what) VALUES (2, '{'x' * 10_000}')")  # noqa: S608
    with pytest.raises(ConstraintError):
        await write(file, 1)
    assert "no room left" in (unwritable(file) or "")
    await run(file, "PRAGMA max_page_count = 10000", "INSERT INTO things (id, what) VALUES (2, 'b')")
    assert unwritable(file) is None


async def test_a_postgresql_that_may_only_be_read_is_read_and_not_written(postgres: Postgres) -> None:
    async with database(postgres) as url:
        async with open_database(url, SCHEMA) as engine:
            await run(engine, f"ALTER DATABASE {make_url(url).database} SET default_transaction_read_only = on")
        engine = make_engine(url)
        with pytest.raises(DatabaseReadOnlyError, match="let its user write"):
            await write(engine, 2)
        assert await count(engine) == 1
        await engine.dispose()


async def test_tables_of_a_newer_skillbus_are_left_alone(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "scripts" / "versions").mkdir(parents=True)
    schema = Schema(METADATA, "things_version", "0001", tmp_path / "scripts", 1)
    async with open_database(database_url, schema) as engine, writing(engine) as connection:
        await connection.execute(text("UPDATE things_version SET version_num = '9999'"))
    with pytest.raises(DatabaseVersionError, match="a newer skillbus made them"):
        async with open_database(database_url, schema):
            pass


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "things.db").write_bytes(b"not a database " * 100)
    with pytest.raises(DatabaseUnavailableError):
        async with open_database(f"sqlite:///{tmp_path}/things.db", SCHEMA):
            pass


async def test_many_who_write_at_once_are_all_kept(things: AsyncEngine) -> None:
    async with asyncio.timeout(5):
        await asyncio.gather(*(write(things, 2 + number) for number in range(40)))
    assert await count(things) == 41


async def test_who_waits_too_long_for_others_of_the_process_is_told_so(
    file: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_TURN_S", 0.05)
    async with writing(file):
        with pytest.raises(DatabaseBusyError, match="others of this process"):
            await write(file, 2)
    await write(file, 2)


async def test_a_transaction_whose_body_fails_leaves_nothing(things: AsyncEngine) -> None:
    async def fail() -> None:
        async with writing(things) as connection:
            await connection.execute(insert(THINGS).values(id=2, what="b"))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await count(things) == 1
