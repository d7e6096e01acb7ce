"""The tables of revision 0001, from which the migrations start."""

from typing import Final

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from skillbus.learner.adapters.sql.tables import SCHEMA

_SEQUENCE: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_MOMENT: Final = sa.DateTime(timezone=True)

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


def create_first_tables(connection: sa.Connection) -> None:
    operations = Operations(MigrationContext.configure(connection))
    _create_knowledge(operations)
    _create_tags_history_and_outbox(operations)
    _create_audit_and_idempotency(operations)
    _create_projects_and_requests(operations)
    _create_uses_and_feedback(operations)
    for statement in _AUDIT_ONLY_GROWS[operations.get_bind().dialect.name]:
        operations.execute(sa.text(statement))
    version = operations.create_table(SCHEMA.version_table, sa.Column("version_num", sa.String(32), primary_key=True))
    operations.bulk_insert(version, [{"version_num": "0001"}])


def _create_knowledge(operations: Operations) -> None:
    operations.create_table(
        "knowledge",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("external_id", sa.String(300)),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("title", sa.String(500), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("scope", sa.String(300), nullable=False),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("source_ref", sa.String(300), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("lang", sa.String(35), nullable=False),
        sa.Column("valid_from", _MOMENT),
        sa.Column("valid_to", _MOMENT),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.Column("updated_by", sa.String(200), nullable=False),
        sa.Column("indexed_version", sa.Integer, nullable=False, server_default="0"),
        sa.Column("folded", sa.Text, nullable=False),
    )
    where = sa.text("external_id IS NOT NULL")
    operations.create_index(
        "knowledge_named",
        "knowledge",
        ["project", "external_id"],
        unique=True,
        sqlite_where=where,
        postgresql_where=where,
    )
    where = sa.text("status = 'active' AND indexed_version < version")
    operations.create_index(
        "knowledge_unindexed",
        "knowledge",
        ["project", "status", "updated_at", "id"],
        sqlite_where=where,
        postgresql_where=where,
    )
    operations.create_index("knowledge_listed", "knowledge", ["project", "status", "updated_at", "id"])
    operations.create_index("knowledge_of_project", "knowledge", ["project", "id"])


def _create_tags_history_and_outbox(operations: Operations) -> None:
    operations.create_table(
        "knowledge_tags",
        sa.Column("id", sa.String(64), sa.ForeignKey("knowledge.id"), primary_key=True),
        sa.Column("tag", sa.String(100), primary_key=True),
    )
    operations.create_index("knowledge_tagged", "knowledge_tags", ["tag", "id"])
    operations.create_table(
        "knowledge_history",
        sa.Column("id", sa.String(64), sa.ForeignKey("knowledge.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("change", sa.String(16), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(2000), nullable=False),
        sa.Column("snapshot", sa.Text, nullable=False),
    )
    operations.create_table(
        "knowledge_outbox",
        sa.Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sqlite_autoincrement=True,
    )


def _create_audit_and_idempotency(operations: Operations) -> None:
    operations.create_table(
        "knowledge_audit",
        sa.Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("id", sa.String(64)),
        sa.Column("version", sa.Integer),
        sa.Column("digest", sa.String(64)),
        sa.Column("reason", sa.String(2000), nullable=False),
        sqlite_autoincrement=True,
    )
    operations.create_index("knowledge_audited", "knowledge_audit", ["project", "sequence"])
    operations.create_index("knowledge_audited_item", "knowledge_audit", ["id", "sequence"])
    operations.create_table(
        "knowledge_idempotency",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
    )
    operations.create_index("knowledge_idempotency_at", "knowledge_idempotency", ["at"])


def _create_projects_and_requests(operations: Operations) -> None:
    operations.create_table(
        "knowledge_projects",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("parent", sa.String(64), nullable=False),
        sa.CheckConstraint("project <> parent", name="knowledge_projects_not_its_own"),
    )
    operations.create_table(
        "knowledge_requests",
        sa.Column("request_id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("scene", sa.String(64), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("applied", sa.Boolean, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
    )
    operations.create_index("knowledge_requests_at", "knowledge_requests", ["project", "at"])


def _create_uses_and_feedback(operations: Operations) -> None:
    operations.create_table(
        "knowledge_uses",
        sa.Column(
            "request_id",
            sa.String(64),
            sa.ForeignKey("knowledge_requests.request_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
    )
    operations.create_index("knowledge_uses_of", "knowledge_uses", ["project", "id"])
    operations.create_table(
        "knowledge_feedback",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(64), sa.ForeignKey("knowledge.id"), primary_key=True),
        sa.Column("actor", sa.String(200), primary_key=True),
        sa.Column("query_hash", sa.String(64), primary_key=True),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("helpful", sa.Boolean, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("comment", sa.String(2000), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
    )
