"""Brings tables to their last form, whoever else begins to do so at the same time.

Alembic is loaded where there is something to migrate: a third of a second that most starts do not need.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.sql.engine import dispose, make_engine, writing
from skillbus.sql.errors import DatabaseUrlError


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables as they are after the last migration, and how older ones get there."""

    metadata: MetaData
    version_table: str
    """Holds the revision."""
    newest: str
    """The last revision of `scripts`, after which the tables are those of `metadata`."""
    scripts: Path
    """A folder with Alembic's `versions`."""
    advisory_lock: int
    """Nobody else's in a database that is shared: on PostgreSQL who makes the tables holds it."""
    statements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By `sqlite` and `postgresql`: what the tables need that their metadata cannot say."""
    first_rows: tuple[tuple[Table, Mapping[str, object]], ...] = ()


@asynccontextmanager
async def open_database(url: str, schema: Schema) -> AsyncGenerator[AsyncEngine]:
    """An engine on the database of this URL, whose tables are made or brought to their last form first.

    Raises:
        DatabaseUnavailableError: it cannot be opened.
    """
    engine = make_engine(url)
    try:
        _make_private(engine)
        try:
            await upgrade(engine, schema)
        except TypeError as error:  # the driver's, for what it gets from the URL
            raise DatabaseUrlError(f"a parameter of the database's URL does not fit: {error}") from error
        yield engine
    finally:
        await dispose(engine)


def _make_private(engine: AsyncEngine) -> None:
    """A new file of SQLite is its owner's alone, and what SQLite puts beside it gets the same rights."""
    if engine.url.get_backend_name() == "sqlite" and engine.url.database:
        with suppress(OSError):  # told by whoever opens it
            Path(engine.url.database).touch(mode=0o600)


async def upgrade(engine: AsyncEngine, schema: Schema) -> None:
    """Make the tables, or run the migrations that are missing, in one transaction; others who would wait meanwhile.

    Raises:
        DatabaseUnavailableError: the database does not answer.
        DatabaseVersionError: a newer skillbus made its tables.
    """
    async with writing(engine) as connection:
        if connection.dialect.name == "postgresql":  # SQLite's lock is that the transaction writes
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": schema.advisory_lock})
        await connection.run_sync(_bring_up, schema)


def _bring_up(connection: Connection, schema: Schema) -> None:
    version = Table(schema.version_table, MetaData(), Column("version_num", String(32), primary_key=True))
    if not inspect(connection).has_table(version.name):
        _make(connection, schema, version)
    elif connection.execute(select(version.c.version_num)).scalars().all() != [schema.newest]:
        from skillbus.sql.migrate import migrate  # noqa: PLC0415 - loads Alembic

        migrate(connection, schema)


def _make(connection: Connection, schema: Schema, version: Table) -> None:
    """What all migrations together would, in a database that has none of it."""
    schema.metadata.create_all(connection, checkfirst=False)
    for statement in schema.statements.get(connection.dialect.name, ()):
        connection.exec_driver_sql(statement)
    for table, row in schema.first_rows:
        connection.execute(insert(table).values(**row))
    version.create(connection)
    connection.execute(insert(version).values(version_num=schema.newest))
