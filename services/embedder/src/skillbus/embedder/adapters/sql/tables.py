"""Tables after the last migration. Each column is the field of that name in the contract's record."""

from pathlib import Path
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

from skillbus.sql.schema import Instant, Schema

METADATA: Final = MetaData()

STATE: Final = Table(
    "embedding_registry",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="embedding_registry_one_row"),
)

PROVIDERS: Final = Table(
    "embedding_providers",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("base_url", String(500)),
    Column("api_key", String(500)),
    Column("timeout_s", Double, nullable=False),
    Column("max_concurrency", Integer, nullable=False),
    Column("max_batch_texts", Integer),
    Column("enabled", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

MODELS: Final = Table(
    "embedding_models",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("provider", String(64), ForeignKey("embedding_providers.name"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("kind", String(32), nullable=False, server_default="embedding"),
    Column("is_default", Boolean, nullable=False),
    Column("dimensions", Integer),
    Column("request_dimensions", Boolean, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("api_path", String(200)),
    Column("max_chars", Integer),
    Column("query_prefix", String(2000), nullable=False),
    Column("document_prefix", String(2000), nullable=False),
    Column("runtime", String(32)),
    Column("path", String(500)),
    Column("calibration", JSON(none_as_null=True)),
    Column("version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("provider", "name", name="embedding_models_name"),
    Index(
        "embedding_models_one_default",
        "kind",
        unique=True,
        sqlite_where=text("is_default"),
        postgresql_where=text("is_default"),
    ),
)

SCHEMA: Final = Schema(
    METADATA,
    version_table="embedding_registry_version",
    newest="0002",
    scripts=Path(__file__).parent / "migrations",
    advisory_lock=0x736B_6275_7365_6D62,  # `skbusemb` in ASCII
    first_rows=((STATE, {"id": 1, "revision": 0}),),
)
