"""Uses and feedback in their tables."""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from skillbus.contracts.learner.usage import (
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
    KnowledgeStats,
    KnowledgeUsed,
)
from skillbus.learner.adapters.sql.project.project_chain import chain_of
from skillbus.learner.adapters.sql.record import reading, writing, written
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE, REQUESTS, USES
from skillbus.learner.adapters.sql.usage.item_usage import usage_of
from skillbus.learner.adapters.sql.usage.usage_reports import stats_of
from skillbus.learner.domain.errors import UnknownItemError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

VOTES_OF_AN_ITEM: Final = 1_000
"""The newest are kept: search reads them all, and the oldest of so many weigh little."""
_FORGOTTEN_AT_ONCE: Final = 500
"""Requests; others write in between."""


class SqlUsage:
    """Counts and reports."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def count(self, used: KnowledgeUsed) -> None:
        requests = [
            {**one.model_dump(exclude={"uses"}), "project": used.project, "uses": len(one.uses)}
            for one in used.requests
        ]
        uses = [{"request_id": one.request_id, **use.model_dump()} for one in used.requests for use in one.uses]

        def work(connection: Connection) -> None:
            connection.execute(_inserting(connection, REQUESTS).on_conflict_do_nothing(), requests)
            if uses:
                connection.execute(_inserting(connection, USES).on_conflict_do_nothing(), uses)

        await written(self._engine, work)

    async def vote(self, feedback: GiveFeedback, query_hash: str, at: datetime) -> ItemUsage:
        async with writing(self._engine) as connection:
            owner = await _owner(connection, feedback.id)
            if owner not in await connection.run_sync(chain_of, feedback.project):
                raise UnknownItemError(feedback.project, feedback.id)
            await _keep_vote(connection, {**_said(feedback, at), "project": owner, "query_hash": query_hash})
            await _drop_oldest_votes(connection, owner, feedback.id)
            # Of an item that it inherits a project learns what itself does with it, not what its siblings do.
            asking = None if owner == feedback.project else feedback.project
            return (await usage_of(connection, owner, [feedback.id], asking))[feedback.id]

    async def usage(self, named: GetKnowledgeUsage) -> ItemUsage:
        async with reading(self._engine) as connection:
            if await _owner(connection, named.id) != named.project:
                raise UnknownItemError(named.project, named.id)
            return (await usage_of(connection, named.project, [named.id]))[named.id]

    async def stats(self, asked: GetKnowledgeStats, stale_before: datetime) -> KnowledgeStats:
        async with reading(self._engine) as connection:
            return await stats_of(connection, asked, stale_before)

    async def forget(self, before: datetime) -> bool:
        old = select(REQUESTS.c.request_id).where(REQUESTS.c.at < before).limit(_FORGOTTEN_AT_ONCE)
        async with reading(self._engine) as connection:
            ids = (await connection.execute(old)).scalars().all()
        if ids:
            async with writing(self._engine) as connection:  # their uses go with them
                await connection.execute(delete(REQUESTS).where(REQUESTS.c.request_id.in_(ids)))
        return len(ids) == _FORGOTTEN_AT_ONCE


def _inserting(connection: AsyncConnection | Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """An insert that can be told what to do with rows whose key is there."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 (0.1 s of a start that needs none of it)

        return postgresql.insert(table)
    return sqlite.insert(table)


async def _owner(connection: AsyncConnection, item: str) -> str | None:
    """The project of an item, whoever asks."""
    return (await connection.execute(select(KNOWLEDGE.c.project).where(KNOWLEDGE.c.id == item))).scalar_one_or_none()


def _said(feedback: GiveFeedback, at: datetime) -> dict[str, object]:
    return {**feedback.model_dump(include={"id", "actor", "query", "helpful", "comment", "request_id"}), "at": at}


async def _keep_vote(connection: AsyncConnection, row: dict[str, object]) -> None:
    """The last word counts."""
    key = [column.name for column in FEEDBACK.primary_key]
    said = {name: value for name, value in row.items() if name not in key}
    kept = _inserting(connection, FEEDBACK).values(row)
    await connection.execute(kept.on_conflict_do_update(index_elements=key, set_=said))


async def _drop_oldest_votes(connection: AsyncConnection, project: str, item: str) -> None:
    votes = (FEEDBACK.c.project == project, FEEDBACK.c.id == item)
    if (await connection.execute(select(func.count()).where(*votes))).scalar_one() <= VOTES_OF_AN_ITEM:
        return
    oldest = select(FEEDBACK.c.at).where(*votes).order_by(FEEDBACK.c.at.desc()).offset(VOTES_OF_AN_ITEM).limit(1)
    await connection.execute(delete(FEEDBACK).where(*votes, FEEDBACK.c.at <= oldest.scalar_subquery()))
