"""Adds the task of a model, and allows one default model for each task. The models of before make embeddings."""

from typing import Final

import sqlalchemy as sa
from alembic.operations import Operations

revision: Final = "0002"
down_revision: Final = "0001"


def upgrade(operations: Operations) -> None:
    operations.add_column(
        "embedding_models", sa.Column("kind", sa.String(32), nullable=False, server_default="embedding")
    )
    operations.drop_index("embedding_models_one_default", "embedding_models")
    operations.create_index(
        "embedding_models_one_default",
        "embedding_models",
        ["kind"],
        unique=True,
        sqlite_where=sa.text("is_default"),
        postgresql_where=sa.text("is_default"),
    )
