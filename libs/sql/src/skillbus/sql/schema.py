"""The tables of a service, how a database gets them, and the column type for a moment in UTC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Dialect,
    MetaData,
    String,
    Table,
    TypeDecorator,
    func,
    insert,
    inspect,
    select,
)


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables as they are after the last migration, and the migrations that lead there."""

    metadata: MetaData
    version_table: str
    """Name of the table that holds the revision."""
    newest: str
    """Last revision in `scripts`, after which the tables equal `metadata`."""
    scripts: Path
    """Folder that holds Alembic's `versions`."""
    advisory_lock: int
    """Key of the PostgreSQL lock that serializes migrations; unique among the services that share a database."""
    statements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Statements that `metadata` cannot express, such as triggers, by `sqlite` and `postgresql`."""
    first_rows: tuple[tuple[Table, Mapping[str, object]], ...] = ()


def create_or_migrate(connection: Connection, schema: Schema) -> None:
    """Create the tables, or migrate them, in the connection's transaction. Others wait. Raises DatabaseVersionError."""
    if connection.dialect.name == "postgresql":  # on SQLite the write transaction is the lock
        connection.execute(select(func.pg_advisory_xact_lock(schema.advisory_lock)))
    version = Table(schema.version_table, MetaData(), Column("version_num", String(32), primary_key=True))
    if not inspect(connection).has_table(version.name):
        _create_tables(connection, schema, version)
    elif connection.execute(select(version.c.version_num)).scalars().all() != [schema.newest]:
        # Loading Alembic takes a third of a second, which most starts do not need.
        from skillbus.sql.migration import run_migrations  # noqa: PLC0415

        run_migrations(connection, schema.scripts, schema.version_table)


def _create_tables(connection: Connection, schema: Schema, version: Table) -> None:
    """Create what all migrations together would create in an empty database."""
    schema.metadata.create_all(connection, checkfirst=False)
    for statement in schema.statements.get(connection.dialect.name, ()):
        connection.exec_driver_sql(statement)
    for table, row in schema.first_rows:
        connection.execute(insert(table).values(**row))
    version.create(connection)
    connection.execute(insert(version).values(version_num=schema.newest))


class Instant(TypeDecorator[datetime]):
    """A moment in UTC, also on SQLite, which has no time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        """Return a parser of SQLite's text, in one step: a search reads two hundred moments."""
        if dialect.name != "sqlite":
            return super().result_processor(dialect, coltype)
        return lambda value: None if value is None else datetime.fromisoformat(f"{value}+00:00")

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)
