"""The tables as they are after the last migration. A column is a field of the contract's item, by the same name.

Rows of `knowledge` become items without validation: the record validated them on write, and a search reads fifty.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.sql.schema import Instant, Schema

_SEQUENCE: Final = BigInteger().with_variant(Integer, "sqlite")
_UNINDEXED: Final = text("status = 'active' AND indexed_version < version")
_NAMED: Final = text("external_id IS NOT NULL")

METADATA: Final = MetaData()

KNOWLEDGE: Final = Table(
    "knowledge",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("external_id", String(300)),
    Column("type", String(32), nullable=False),
    Column("title", String(500), nullable=False),
    Column("content", Text, nullable=False),
    Column("scope", String(300), nullable=False),
    Column("tags", JSON, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("source", String(100), nullable=False),
    Column("source_ref", String(300), nullable=False),
    Column("owner", String(200), nullable=False),
    Column("lang", String(35), nullable=False),
    Column("valid_from", Instant),
    Column("valid_to", Instant),
    Column("status", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("updated_by", String(200), nullable=False),
    # Not the contract's:
    Column("indexed_version", Integer, nullable=False, server_default="0"),
    Column("folded", Text, nullable=False),  # title and content, for words in any case: no two databases fold alike
    Index("knowledge_named", "project", "external_id", unique=True, sqlite_where=_NAMED, postgresql_where=_NAMED),
    # The columns of `knowledge_listed`: of two that serve alike SQLite takes the smaller one, else it walks the other.
    Index(
        "knowledge_unindexed",
        "project",
        "status",
        "updated_at",
        "id",
        sqlite_where=_UNINDEXED,
        postgresql_where=_UNINDEXED,
    ),
    Index("knowledge_listed", "project", "status", "updated_at", "id"),
    Index("knowledge_of_project", "project", "id"),
)

TAGS: Final = Table(
    "knowledge_tags",
    METADATA,
    Column("id", String(64), ForeignKey("knowledge.id"), primary_key=True),
    Column("tag", String(100), primary_key=True),
    Index("knowledge_tagged", "tag", "id"),
)

HISTORY: Final = Table(
    "knowledge_history",
    METADATA,
    Column("id", String(64), ForeignKey("knowledge.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project", String(64), nullable=False),
    Column("change", String(16), nullable=False),
    Column("at", Instant, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("reason", String(2000), nullable=False),
    Column("snapshot", Text, nullable=False),  # the whole item as of this version: KnowledgeItem as JSON
)

OUTBOX: Final = Table(
    "knowledge_outbox",
    METADATA,
    Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("project", String(64), nullable=False),
    Column("id", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

AUDIT: Final = Table(
    "knowledge_audit",
    METADATA,
    Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("action", String(32), nullable=False),
    Column("project", String(64), nullable=False),
    Column("id", String(64)),
    Column("version", Integer),
    Column("digest", String(64)),
    Column("reason", String(2000), nullable=False),
    Index("knowledge_audited", "project", "sequence"),
    Index("knowledge_audited_item", "id", "sequence"),
    sqlite_autoincrement=True,
)

IDEMPOTENCY: Final = Table(
    "knowledge_idempotency",
    METADATA,
    Column("project", String(64), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("request_digest", String(64), nullable=False),
    Column("id", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Index("knowledge_idempotency_at", "at"),
)

PROJECTS: Final = Table(
    "knowledge_projects",
    METADATA,
    Column("project", String(64), primary_key=True),
    Column("parent", String(64), nullable=False),
    CheckConstraint("project <> parent", name="knowledge_projects_not_its_own"),
)

REQUESTS: Final = Table(
    "knowledge_requests",
    METADATA,
    Column("request_id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("scene", String(64), nullable=False),
    Column("query", Text, nullable=False),
    Column("applied", Boolean, nullable=False),
    Column("at", Instant, nullable=False),
    Column("uses", Integer, nullable=False),
    Index("knowledge_requests_at", "project", "at"),
)

USES: Final = Table(
    "knowledge_uses",
    METADATA,
    Column("request_id", String(64), ForeignKey("knowledge_requests.request_id", ondelete="CASCADE"), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Index("knowledge_uses_of", "project", "id"),
)

FEEDBACK: Final = Table(
    "knowledge_feedback",
    METADATA,
    Column("project", String(64), primary_key=True),
    Column("id", String(64), ForeignKey("knowledge.id"), primary_key=True),
    Column("actor", String(200), primary_key=True),
    Column("query_hash", String(64), primary_key=True),
    Column("query", Text, nullable=False),
    Column("helpful", Boolean, nullable=False),
    Column("at", Instant, nullable=False),
    Column("comment", String(2000), nullable=False),
    Column("request_id", String(64), nullable=False),
)

LEARNING_JOBS: Final = Table(
    "learning_jobs",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("what", String(16), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("source", String(100), nullable=False),
    Column("task", String(200), nullable=False),
    Column("context", JSON, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("progress", JSON, nullable=False),
    Column("new_items", Integer, nullable=False),
    Column("known_items", Integer, nullable=False),
    Column("error", String(2000)),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    # Not the contract's:
    Column("files", JSON, nullable=False),  # until the job ends
    Column("attempts", Integer, nullable=False),
    Column("claim", String(64)),  # token of the runner that works on it
    Column("lease_until", Instant),
    Column("report", LargeBinary),  # zlib of a JSON object with `files` and `items`
    Index("learning_jobs_once", "project", "what", "digest", unique=True),
    Index("learning_jobs_listed", "project", "id"),
    Index("learning_jobs_open", "status", "id"),
)

LEARNING_RUNS: Final = Table(
    "learning_runs",
    METADATA,
    Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("project", String(64), nullable=False),
    Column("source", String(100), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("at", Instant, nullable=False),
    Column("run", LargeBinary, nullable=False),  # zlib of a test run as JSON
    Index("learning_runs_once", "project", "source", "digest", unique=True),
    sqlite_autoincrement=True,
)

LEARNING_SOURCES_OFF: Final = Table(
    "learning_sources_off",
    METADATA,
    Column("project", String(64), primary_key=True),
    Column("source", String(100), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor", String(200), nullable=False),
)

LEARNED_ITEMS: Final = Table(
    "learned_items",
    METADATA,
    Column("id", String(64), ForeignKey("knowledge.id"), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("topic", String(64), nullable=False),  # SHA-256 of scope, subject and predicate
    Column("identity", String(64), nullable=False),  # SHA-256 of these, value and polarity
    Column("job", String(64), nullable=False),
    Column("first_seen", Instant, nullable=False),
    Column("last_seen", Instant, nullable=False),
    Column("learned", Text, nullable=False),  # LearnedItem as JSON
    Column("kind", String(16), nullable=False),
    Column("learned_kind", String(16), nullable=False),
    Column("reason", String(2000), nullable=False),
    Column("other", String(64)),
    Column("decision", String(16)),
    Column("snoozed_until", Instant),
    Index("learned_items_once", "project", "identity", unique=True),
    Index("learned_items_topic", "project", "topic"),
)

LEARNING_ANSWERS: Final = Table(
    "learning_answers",
    METADATA,
    Column("key", String(64), primary_key=True),  # SHA-256 of the request to a chat model
    Column("mode", String(16), nullable=False),
    Column("model", String(300), nullable=False),
    Column("text", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Index("learning_answers_at", "at"),
)

_AUDIT_ONLY_GROWS: Final = {
    "sqlite": tuple(
        f"CREATE TRIGGER knowledge_audit_no_{change} BEFORE {change} ON knowledge_audit "
        "BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END"
        for change in ("update", "delete")
    ),
    "postgresql": (
        """
        CREATE FUNCTION knowledge_audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''the audit only grows'' USING ERRCODE = ''integrity_constraint_violation''; END'
        """,
        """
        CREATE TRIGGER knowledge_audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON knowledge_audit
        FOR EACH STATEMENT EXECUTE FUNCTION knowledge_audit_only_grows()
        """,
    ),
}

SCHEMA: Final = Schema(
    METADATA,
    version_table="knowledge_schema",
    newest="0004",
    scripts=Path(__file__).parent / "migrations",
    advisory_lock=0x736B_6275_736C_726E,  # `skbuslrn` in ASCII
    statements=_AUDIT_ONLY_GROWS,
)


_FIELDS: Final = tuple(KnowledgeItem.model_fields)
_STATUSES: Final[Mapping[object, KnowledgeStatus]] = {status.value: status for status in KnowledgeStatus}
_NOTHING: Final[Mapping[str, Any]] = dict.fromkeys(_FIELDS)
_BLANK: Final = KnowledgeItem.model_construct(**_NOTHING)
"""Copying and filling a blank item takes half the time of `model_construct`."""

ITEM_COLUMNS: Final = tuple(KNOWLEDGE.c[name] for name in _FIELDS)
"""Columns that `parse_item` needs first in a row, in this order."""


def parse_item(row: Sequence[object]) -> KnowledgeItem:
    """Return the item of a row that begins with `ITEM_COLUMNS`."""
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=False))
    values["status"] = _STATUSES[values["status"]]
    values["tags"] = tuple(values["tags"])
    return _BLANK.model_copy(update=values)
