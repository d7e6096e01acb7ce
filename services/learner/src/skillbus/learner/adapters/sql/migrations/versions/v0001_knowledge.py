"""Names the first tables. A database has them, or newer ones, since it was created: there is nothing to run."""

from typing import Final

from alembic.operations import Operations

revision: Final = "0001"
down_revision: Final = None


def upgrade(_: Operations) -> None:
    pass
