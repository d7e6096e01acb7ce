"""Removes the moment at which the index had an item, which nothing reads."""

from typing import Final

from alembic.operations import Operations

revision: Final = "0003"
down_revision: Final = "0002"


def upgrade(operations: Operations) -> None:
    operations.drop_index("knowledge_indexed", "knowledge")
    operations.drop_column("knowledge", "indexed_at")
