"""Adds the jobs that learn, the test runs they have read, the sources that are switched off, and learned items."""

from typing import Final

import sqlalchemy as sa
from alembic.operations import Operations

revision: Final = "0004"
down_revision: Final = "0003"

_SEQUENCE: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_INSTANT: Final = sa.DateTime(timezone=True)


def upgrade(operations: Operations) -> None:
    _create_jobs(operations)
    operations.create_table(
        "learning_runs",
        sa.Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("run", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    operations.create_index("learning_runs_once", "learning_runs", ["project", "source", "digest"], unique=True)
    operations.create_table(
        "learning_sources_off",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("source", sa.String(100), primary_key=True),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
    )
    operations.create_table(
        "learned_items",
        sa.Column("id", sa.String(64), sa.ForeignKey("knowledge.id"), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("topic", sa.String(64), nullable=False),
        sa.Column("identity", sa.String(64), nullable=False),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("first_seen", _INSTANT, nullable=False),
        sa.Column("last_seen", _INSTANT, nullable=False),
        sa.Column("learned", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("learned_kind", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(2000), nullable=False),
        sa.Column("other", sa.String(64)),
        sa.Column("decision", sa.String(16)),
        sa.Column("snoozed_until", _INSTANT),
    )
    operations.create_index("learned_items_once", "learned_items", ["project", "identity"], unique=True)
    operations.create_index("learned_items_topic", "learned_items", ["project", "topic"])
    operations.create_table(
        "learning_answers",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("model", sa.String(300), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
    )
    operations.create_index("learning_answers_at", "learning_answers", ["at"])


def _create_jobs(operations: Operations) -> None:
    operations.create_table(
        "learning_jobs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("what", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("task", sa.String(200), nullable=False),
        sa.Column("context", sa.JSON, nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("new_items", sa.Integer, nullable=False),
        sa.Column("known_items", sa.Integer, nullable=False),
        sa.Column("error", sa.String(2000)),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("started_at", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        sa.Column("files", sa.JSON, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claim", sa.String(64)),
        sa.Column("lease_until", _INSTANT),
        sa.Column("report", sa.LargeBinary),
    )
    operations.create_index("learning_jobs_once", "learning_jobs", ["project", "what", "digest"], unique=True)
    operations.create_index("learning_jobs_listed", "learning_jobs", ["project", "id"])
    operations.create_index("learning_jobs_open", "learning_jobs", ["status", "id"])
