"""The tables of the knowledge base, on SQLite and on PostgreSQL, made at once or migrated."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.tables import AUDIT, KNOWLEDGE, METADATA, SCHEMA
from skillbus.sql.engine import make_engine, reading, writing
from skillbus.sql.errors import ConstraintError
from skillbus.sql.migrate import migrate, newest
from skillbus.sql.schema import upgrade

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.fixture(params=["made at once", "migrated"])
async def engine(database_url: str, request: pytest.FixtureRequest) -> AsyncGenerator[AsyncEngine]:
    """With its tables, in one way or the other."""
    engine = make_engine(database_url)
    if request.param == "migrated":
        async with writing(engine) as connection:
            await connection.run_sync(migrate, SCHEMA)
    await upgrade(engine, SCHEMA)
    yield engine
    await engine.dispose()


async def run(engine: AsyncEngine, statement: str) -> None:
    async with writing(engine) as connection:
        await connection.execute(text(statement))


async def test_the_tables_are_those_that_the_migrations_make(engine: AsyncEngine) -> None:
    def differences(connection: Connection) -> list[object]:
        options = {"include_name": lambda name, kind, _: kind != "table" or name in METADATA.tables}
        context = MigrationContext.configure(connection, opts=options)
        found: list[object] = compare_metadata(context, METADATA)
        return found

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


def test_tables_that_are_made_at_once_are_those_of_the_last_migration() -> None:
    assert newest(SCHEMA.scripts) == SCHEMA.newest


def test_a_column_is_a_field_of_the_contract() -> None:
    assert set(KNOWLEDGE.columns.keys()) == {*KnowledgeItem.model_fields, "indexed_version", "indexed_at", "folded"}


async def test_the_audit_only_grows(engine: AsyncEngine) -> None:
    async with writing(engine) as connection:
        await connection.execute(insert(AUDIT).values(at=NOW, actor="a", action="created", project="p", reason=""))
    for statement in ("UPDATE knowledge_audit SET actor = 'b'", "DELETE FROM knowledge_audit"):
        with pytest.raises(ConstraintError, match="only grows"):
            await run(engine, statement)
    async with reading(engine) as connection:
        assert (await connection.execute(select(AUDIT.c.actor, AUDIT.c.at))).one() == ("a", NOW)
