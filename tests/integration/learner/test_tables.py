"""The tables of the knowledge base, on SQLite and on PostgreSQL, made at once or migrated."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, String, insert, select, text

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.tables import AUDIT, KNOWLEDGE, METADATA, SCHEMA
from skillbus.sql.database import Database, connect_database, open_database
from skillbus.sql.errors import ConstraintError

from .first_tables import create_first_tables

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.fixture(params=["made at once", "migrated"])
async def tables(database_url: str, request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    """Tables that were created at once, or as the first tables and then migrated."""
    if request.param == "migrated":
        old = connect_database(database_url)
        await old.write(create_first_tables)
        await old.close()
    async with open_database(database_url, SCHEMA) as database:
        yield database


async def test_the_tables_are_those_that_the_migrations_make(tables: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        options = {"include_name": lambda name, kind, _: kind != "table" or name in METADATA.tables}
        context = MigrationContext.configure(connection, opts=options)
        found: list[object] = compare_metadata(context, METADATA)
        return found

    assert await tables.read(differences) == []


def test_tables_that_are_made_at_once_are_those_of_the_last_migration() -> None:
    assert ScriptDirectory(str(SCHEMA.scripts)).get_current_head() == SCHEMA.newest


def test_a_column_is_a_field_of_the_contract() -> None:
    assert set(KNOWLEDGE.columns.keys()) == {*KnowledgeItem.model_fields, "indexed_version", "folded"}


def execute(connection: Connection, statement: str) -> None:
    connection.execute(text(statement))


async def test_a_migration_keeps_the_items(database_url: str) -> None:
    names = [column.name for column in KNOWLEDGE.columns if not column.nullable]
    row: dict[str, object] = {name: "a" if isinstance(KNOWLEDGE.c[name].type, String) else 1 for name in names}
    row |= {"created_at": NOW, "updated_at": NOW, "tags": []}
    old = connect_database(database_url)
    await old.write(create_first_tables)
    await old.write(lambda connection: connection.execute(insert(KNOWLEDGE).values(row)).rowcount)
    await old.close()
    async with open_database(database_url, SCHEMA) as database:
        kept = await database.read(lambda connection: dict(connection.execute(select(KNOWLEDGE)).mappings().one()))
    assert kept == dict.fromkeys(KNOWLEDGE.columns.keys()) | row


async def test_the_audit_only_grows(tables: Database) -> None:
    entry = {"at": NOW, "actor": "a", "action": "created", "project": "p", "reason": ""}
    await tables.write(lambda connection: connection.execute(insert(AUDIT).values(entry)).rowcount)
    for statement in ("UPDATE knowledge_audit SET actor = 'b'", "DELETE FROM knowledge_audit"):
        with pytest.raises(ConstraintError, match="only grows"):
            await tables.write(partial(execute, statement=statement))
    query = select(AUDIT.c.actor, AUDIT.c.at)
    assert await tables.read(lambda connection: tuple(connection.execute(query).one())) == ("a", NOW)
