"""Creates the tables of providers and models, and their revision."""

from typing import Final

import sqlalchemy as sa
from alembic.operations import Operations

revision: Final = "0001"
down_revision: Final = None


def upgrade(operations: Operations) -> None:
    _create_providers(operations)
    _create_models(operations)
    state = operations.create_table(
        "embedding_registry",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="embedding_registry_one_row"),
    )
    operations.bulk_insert(state, [{"id": 1, "revision": 0}])


def _create_providers(operations: Operations) -> None:
    operations.create_table(
        "embedding_providers",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("base_url", sa.String(500)),
        sa.Column("api_key", sa.String(500)),
        sa.Column("timeout_s", sa.Double, nullable=False),
        sa.Column("max_concurrency", sa.Integer, nullable=False),
        sa.Column("max_batch_texts", sa.Integer),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    )


def _create_models(operations: Operations) -> None:
    operations.create_table(
        "embedding_models",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("provider", sa.String(64), sa.ForeignKey("embedding_providers.name"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("is_default", sa.Boolean, nullable=False),
        sa.Column("dimensions", sa.Integer),
        sa.Column("request_dimensions", sa.Boolean, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("api_path", sa.String(200)),
        sa.Column("max_chars", sa.Integer),
        sa.Column("query_prefix", sa.String(2000), nullable=False),
        sa.Column("document_prefix", sa.String(2000), nullable=False),
        sa.Column("runtime", sa.String(32)),
        sa.Column("path", sa.String(500)),
        sa.Column("calibration", sa.JSON),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("provider", "name", name="embedding_models_name"),
    )
    operations.create_index(
        "embedding_models_one_default",
        "embedding_models",
        ["is_default"],
        unique=True,
        sqlite_where=sa.text("is_default"),
        postgresql_where=sa.text("is_default"),
    )
