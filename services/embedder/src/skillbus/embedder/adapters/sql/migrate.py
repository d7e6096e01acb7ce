"""Runs the migrations that are missing, by Alembic."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from sqlalchemy import Connection

from skillbus.embedder.domain.registry_errors import RegistryVersionError

_SCRIPTS: Final = Path(__file__).parent / "migrations"


def newest() -> str | None:
    """The last revision."""
    return ScriptDirectory(str(_SCRIPTS)).get_current_head()


def migrate(connection: Connection, version_table: str) -> None:
    """Run them within the connection's transaction.

    Raises:
        RegistryVersionError: a newer skillbus made the tables.
    """
    scripts = ScriptDirectory(str(_SCRIPTS))

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

    context = MigrationContext.configure(connection, opts={"fn": steps, "version_table": version_table})
    context.run_migrations(operations=Operations(context))
