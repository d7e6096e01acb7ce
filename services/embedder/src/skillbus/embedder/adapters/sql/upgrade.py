"""Brings the tables to their last form, whoever else begins to do so at the same time.

Alembic is loaded where there is something to migrate: a third of a second that most starts do not need.
"""

from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.embedder.adapters.sql.engine import writing
from skillbus.embedder.adapters.sql.tables import METADATA, STATE

NEWEST: Final = "0001"
"""The last revision of `migrations/versions`, after which the tables are those of `tables.py`."""

VERSION: Final = Table("embedding_registry_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""As Alembic makes it."""

_ADVISORY_LOCK: Final = 0x736B_6275_7365_6D62
"""`skbusemb` in ASCII: nobody else's in a database that is shared."""


async def upgrade(engine: AsyncEngine) -> None:
    """Make the tables, or run the migrations that are missing, in one transaction; others who would wait meanwhile.

    Raises:
        RegistryUnavailableError: the database does not answer.
        RegistryVersionError: a newer skillbus made its tables.
    """
    async with writing(engine) as connection:
        if connection.dialect.name == "postgresql":  # SQLite's lock is that the transaction writes
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        await connection.run_sync(_bring_up)


def _bring_up(connection: Connection) -> None:
    if not inspect(connection).has_table(VERSION.name):
        _make(connection)
    elif connection.execute(select(VERSION.c.version_num)).scalars().all() != [NEWEST]:
        from skillbus.embedder.adapters.sql.migrate import migrate  # noqa: PLC0415 - loads Alembic

        migrate(connection, VERSION.name)


def _make(connection: Connection) -> None:
    """What all migrations together would, in a database that has none of it."""
    METADATA.create_all(connection, checkfirst=False)
    VERSION.create(connection)
    connection.execute(insert(STATE).values(id=1, revision=0))
    connection.execute(insert(VERSION).values(version_num=NEWEST))
