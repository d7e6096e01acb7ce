"""Runs the migrations that are missing, by Alembic."""

from collections.abc import Iterable
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from sqlalchemy import Connection

from skillbus.sql.errors import DatabaseVersionError
from skillbus.sql.schema import Schema


def newest(scripts: Path) -> str | None:
    """The last revision of a folder."""
    return ScriptDirectory(str(scripts)).get_current_head()


def migrate(connection: Connection, schema: Schema) -> None:
    """Run them within the connection's transaction.

    Raises:
        DatabaseVersionError: a newer skillbus made the tables.
    """
    scripts = ScriptDirectory(str(schema.scripts))

    # Not by Alembic's env.py: that works through module-level proxies, which two databases of one process would share.
    def steps(heads: tuple[str, ...], _: MigrationContext) -> Iterable[MigrationStep]:
        try:
            missing = list(scripts.iterate_revisions("heads", heads or None))
        except RevisionError as error:
            raise DatabaseVersionError(
                f"the tables of {schema.version_table} are of a version that is not known here ({', '.join(heads)}): "
                "a newer skillbus made them; run that one"
            ) from error
        return [RevisionStep(scripts.revision_map, script, True) for script in reversed(missing)]

    context = MigrationContext.configure(connection, opts={"fn": steps, "version_table": schema.version_table})
    context.run_migrations(operations=Operations(context))
