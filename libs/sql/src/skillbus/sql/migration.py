"""Runs missing migrations with Alembic."""

from collections.abc import Iterable
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from sqlalchemy import Connection

from skillbus.sql.errors import DatabaseVersionError


def run_migrations(connection: Connection, scripts: Path, version_table: str) -> None:
    """Run the migrations that the database lacks, within the connection's transaction. Raises DatabaseVersionError."""
    folder = ScriptDirectory(str(scripts))

    # Alembic's env.py works through module-level proxies, which two databases in one process would share.
    def list_steps(heads: tuple[str, ...], _: MigrationContext) -> Iterable[MigrationStep]:
        try:
            missing = list(folder.iterate_revisions("heads", heads or None))
        except RevisionError as error:
            raise DatabaseVersionError(
                f"the tables of {version_table} have an unknown version ({', '.join(heads)}): "
                "a newer skillbus created them; run that one"
            ) from error
        return [RevisionStep(folder.revision_map, script, True) for script in reversed(missing)]

    context = MigrationContext.configure(connection, opts={"fn": list_steps, "version_table": version_table})
    context.run_migrations(operations=Operations(context))
