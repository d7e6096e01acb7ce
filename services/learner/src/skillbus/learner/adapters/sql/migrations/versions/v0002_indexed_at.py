"""Adds the moment at which the index had an item."""

from typing import Final

import sqlalchemy as sa
from alembic.operations import Operations

revision: Final = "0002"
down_revision: Final = "0001"


def upgrade(operations: Operations) -> None:
    operations.add_column("knowledge", sa.Column("indexed_at", sa.DateTime(timezone=True)))
    operations.create_index("knowledge_indexed", "knowledge", ["project", "indexed_at"])
