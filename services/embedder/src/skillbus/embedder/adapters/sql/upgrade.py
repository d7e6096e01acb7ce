"""Brings the tables to their last form, whoever else begins to do so at the same time."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.embedder.adapters.sql.engine import writing
from skillbus.embedder.domain.registry_errors import RegistryVersionError

_SCRIPTS: Final = Path(__file__).parent / "migrations"
_VERSION_TABLE: Final = "embedding_registry_version"
_ADVISORY_LOCK: Final = 0x736B_6275_7365_6D62
"""`skbusemb` in ASCII: nobody else's in a database that is shared."""


async def upgrade(engine: AsyncEngine) -> None:
    """Run the migrations that are missing, in one transaction; others that want to do so wait meanwhile.

    Raises:
        RegistryUnavailableError: the database does not answer.
        RegistryVersionError: a newer skillbus made its tables.
    """
    scripts = await asyncio.to_thread(_scripts)
    async with writing(engine) as connection:
        if connection.dialect.name == "postgresql":  # SQLite's lock is that the transaction writes
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        await connection.run_sync(_migrate, scripts)


def _scripts() -> ScriptDirectory:
    scripts = ScriptDirectory(str(_SCRIPTS))
    scripts.get_revisions("heads")  # reads the files now, in the thread
    return scripts


def _migrate(connection: Connection, scripts: ScriptDirectory) -> None:
    # Not by Alembic's env.py: that works through module-level proxies, which two databases of one process would share.
    def steps(heads: tuple[str, ...], _: MigrationContext) -> Iterable[MigrationStep]:
        try:
            missing = list(scripts.iterate_revisions("heads", heads or None))
        except RevisionError as error:
            raise RegistryVersionError(
                f"the registry's tables are of a version that is not known here ({', '.join(heads)}): "
                "a newer skillbus made them; run that one"
            ) from error
        return [RevisionStep(scripts.revision_map, script, True) for script in reversed(missing)]

    context = MigrationContext.configure(connection, opts={"fn": steps, "version_table": _VERSION_TABLE})
    context.run_migrations(operations=Operations(context))
