"""The tables of a service, and how a database gets them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, func, insert, inspect, select


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
    """Create the tables, or run the missing migrations, in the connection's transaction. Other processes wait.

    Raises:
        DatabaseVersionError: a newer skillbus created the tables.
    """
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
