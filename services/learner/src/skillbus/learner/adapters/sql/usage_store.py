"""Uses and feedback in their tables."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects import sqlite

from skillbus.contracts.learner.usage import (
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
    KnowledgeStats,
    KnowledgeUsed,
)
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.project_store import list_chain
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE, REQUESTS, USES
from skillbus.learner.adapters.sql.usage_reports import load_item_usage, load_stats
from skillbus.learner.domain.errors import UnknownItemError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

VOTES_OF_AN_ITEM: Final = 1_000
"""The newest votes are kept: search reads them all, and the oldest of so many have little weight."""
_REMOVED_REQUESTS: Final = 500
"""Requests removed by one transaction; other writers get their turn in between."""


@dataclass(frozen=True, slots=True)
class SqlUsage:
    """Counts uses, keeps votes and builds reports. Raises KnowledgeUnavailableError."""

    database: KnowledgeDatabase

    async def count_uses(self, used: KnowledgeUsed) -> None:
        requests = [
            {**one.model_dump(exclude={"uses"}), "project": used.project, "uses": len(one.uses)}
            for one in used.requests
        ]
        uses = [{"request_id": one.request_id, **use.model_dump()} for one in used.requests for use in one.uses]

        def work(connection: Connection) -> None:
            connection.execute(_insert_into(connection, REQUESTS).on_conflict_do_nothing(), requests)
            if uses:
                connection.execute(_insert_into(connection, USES).on_conflict_do_nothing(), uses)

        await self.database.write(work)

    async def record_vote(self, feedback: GiveFeedback, query_hash: str, at: datetime) -> ItemUsage:
        fields = feedback.model_dump(include={"id", "actor", "query", "helpful", "comment", "request_id"})

        def work(connection: Connection) -> ItemUsage:
            owner = _load_owner(connection, feedback.id)
            if owner not in list_chain(connection, feedback.project):
                raise UnknownItemError(feedback.project, feedback.id)
            vote = {**fields, "at": at, "project": owner, "query_hash": query_hash}
            key = [column.name for column in FEEDBACK.primary_key]  # an actor's last vote on an item and a query counts
            newer = {name: value for name, value in vote.items() if name not in key}
            insertion = _insert_into(connection, FEEDBACK).values(vote)
            connection.execute(insertion.on_conflict_do_update(index_elements=key, set_=newer))
            votes = (FEEDBACK.c.project == owner, FEEDBACK.c.id == feedback.id)
            if connection.execute(select(func.count()).where(*votes)).scalar_one() > VOTES_OF_AN_ITEM:
                latest = select(FEEDBACK.c.at).where(*votes).order_by(FEEDBACK.c.at.desc())
                oldest_kept = latest.offset(VOTES_OF_AN_ITEM).limit(1).scalar_subquery()
                connection.execute(delete(FEEDBACK).where(*votes, FEEDBACK.c.at <= oldest_kept))
            # Of an inherited item a project sees its own uses only, not those of its siblings.
            asking = None if owner == feedback.project else feedback.project
            return load_item_usage(connection, owner, [feedback.id], asking)[feedback.id]

        return await self.database.write(work)

    async def get_usage(self, named: GetKnowledgeUsage) -> ItemUsage:
        def work(connection: Connection) -> ItemUsage:
            if _load_owner(connection, named.id) != named.project:
                raise UnknownItemError(named.project, named.id)
            return load_item_usage(connection, named.project, [named.id])[named.id]

        return await self.database.read(work)

    async def get_stats(self, asked: GetKnowledgeStats, stale_before: datetime, now: datetime) -> KnowledgeStats:
        return await self.database.read(lambda connection: load_stats(connection, asked, stale_before, now))

    async def remove_requests(self, before: datetime) -> bool:
        old = select(REQUESTS.c.request_id).where(REQUESTS.c.at < before).limit(_REMOVED_REQUESTS)
        ids = await self.database.read(lambda connection: connection.execute(old).scalars().all())

        def work(connection: Connection) -> None:  # uses are removed by ON DELETE CASCADE
            connection.execute(delete(REQUESTS).where(REQUESTS.c.request_id.in_(ids)))

        if ids:
            await self.database.write(work)
        return len(ids) == _REMOVED_REQUESTS


def _insert_into(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """Return an insert that supports ON CONFLICT."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 (0.1 s of a start that needs none of it)

        return postgresql.insert(table)
    return sqlite.insert(table)


def _load_owner(connection: Connection, item: str) -> str | None:
    return connection.execute(select(KNOWLEDGE.c.project).where(KNOWLEDGE.c.id == item)).scalar_one_or_none()
