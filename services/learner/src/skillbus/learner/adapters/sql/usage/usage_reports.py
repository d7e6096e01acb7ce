"""A project in numbers, and what somebody should look at."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from skillbus.contracts.learner.knowledge import KnowledgeStatus, KnowledgeType
from skillbus.contracts.learner.usage import GetKnowledgeStats, HelpfulRate, ItemUsage, KnowledgeStats, UnansweredQuery
from skillbus.learner.adapters.sql.index.finder_record import UNINDEXED
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE, REQUESTS, USES
from skillbus.learner.adapters.sql.usage.item_usage import usage_of
from skillbus.learner.domain.usage.votes import rate

_QUERY_CHARACTERS: Final = 500
_of = KNOWLEDGE.c


async def stats_of(connection: AsyncConnection, asked: GetKnowledgeStats, stale_before: datetime) -> KnowledgeStats:
    """Of a project: what its own items are used for, and what its own callers ask."""
    active = and_(_of.project == asked.project, _of.status == KnowledgeStatus.ACTIVE.value)
    unused = and_(active, ~exists().where(USES.c.project == _of.project, USES.c.id == _of.id))
    stale = and_(active, _of.updated_at < stale_before, ~_helped_since(stale_before))
    kinds = await _kinds(connection, asked.project)
    asked_for = await _requests(connection, asked.project)
    reports = {
        "most_used": await _ids(connection, _most_used(asked)),
        "never_used": await _ids(connection, select(_of.id).where(unused).order_by(_of.created_at, _of.id), asked),
        "stale": await _ids(connection, select(_of.id).where(stale).order_by(_of.updated_at, _of.id), asked),
        "least_helpful": await _least_helpful(connection, asked),
    }
    usage = await usage_of(connection, asked.project, list({item: None for ids in reports.values() for item in ids}))
    shown: dict[str, tuple[ItemUsage, ...]] = {
        report: tuple(usage[item] for item in ids) for report, ids in reports.items()
    }
    return KnowledgeStats(
        project=asked.project,
        total=sum(kinds.values()),
        by_status={status: sum(n for (s, _), n in kinds.items() if s == status.value) for status in KnowledgeStatus},
        by_type={kind: kinds.get((KnowledgeStatus.ACTIVE.value, kind.value), 0) for kind in KnowledgeType},
        unindexed=await _count(connection, and_(_of.project == asked.project, UNINDEXED)),
        searches=asked_for.get(False, 0),
        contexts=asked_for.get(True, 0),
        feedback=await _feedback(connection, asked.project),
        most_used=shown["most_used"],
        never_used=shown["never_used"],
        never_used_count=await _count(connection, unused),
        stale=shown["stale"],
        stale_count=await _count(connection, stale),
        least_helpful=shown["least_helpful"],
        unanswered=await _unanswered(connection, asked),
    )


def _helped_since(moment: datetime) -> ColumnElement[bool]:
    return exists().where(
        FEEDBACK.c.project == _of.project, FEEDBACK.c.id == _of.id, FEEDBACK.c.helpful, FEEDBACK.c.at >= moment
    )


def _most_used(asked: GetKnowledgeStats) -> Select[str]:
    used = select(USES.c.id).join(KNOWLEDGE, _of.id == USES.c.id).where(USES.c.project == asked.project)
    used = used.where(_of.project == asked.project)
    return used.group_by(USES.c.id).order_by(func.count().desc(), USES.c.id).limit(asked.limit)


async def _ids(
    connection: AsyncConnection, wanted: Select[str], asked: GetKnowledgeStats | None = None
) -> Sequence[str]:
    limited = wanted if asked is None else wanted.limit(asked.limit)
    return (await connection.execute(limited)).scalars().all()


async def _count(connection: AsyncConnection, condition: ColumnElement[bool]) -> int:
    return (await connection.execute(select(func.count()).select_from(KNOWLEDGE).where(condition))).scalar_one()


async def _kinds(connection: AsyncConnection, project: str) -> dict[tuple[str, str], int]:
    kinds = select(_of.status, _of.type, func.count()).where(_of.project == project).group_by(_of.status, _of.type)
    return {(status, kind): count for status, kind, count in await connection.execute(kinds)}


async def _requests(connection: AsyncConnection, project: str) -> dict[bool, int]:
    """How many searches, and how many contexts."""
    requests = select(REQUESTS.c.applied, func.count()).where(REQUESTS.c.project == project)
    return {row[0]: row[1] for row in await connection.execute(requests.group_by(REQUESTS.c.applied))}


async def _feedback(connection: AsyncConnection, project: str) -> HelpfulRate | None:
    votes = select(FEEDBACK.c.helpful, func.count()).where(FEEDBACK.c.project == project).group_by(FEEDBACK.c.helpful)
    counts = {row[0]: row[1] for row in await connection.execute(votes)}
    return rate(counts.get(True, 0), counts.get(False, 0))


async def _least_helpful(connection: AsyncConnection, asked: GetKnowledgeStats) -> Sequence[str]:
    """Active items that did not help somebody, by the upper end of the interval of their rate."""
    votes = select(FEEDBACK.c.id, FEEDBACK.c.helpful, func.count()).join(KNOWLEDGE, _of.id == FEEDBACK.c.id)
    votes = votes.where(FEEDBACK.c.project == asked.project, _of.status == KnowledgeStatus.ACTIVE.value)
    counts: dict[str, dict[bool, int]] = {}
    for item, helpful, count in await connection.execute(votes.group_by(FEEDBACK.c.id, FEEDBACK.c.helpful)):
        counts.setdefault(item, {})[helpful] = count
    rated = ((item, rate(given.get(True, 0), given.get(False, 0))) for item, given in counts.items() if False in given)
    highs = sorted((said.high, item) for item, said in rated if said is not None)
    return [item for _, item in highs[: asked.limit]]


async def _unanswered(connection: AsyncConnection, asked: GetKnowledgeStats) -> tuple[UnansweredQuery, ...]:
    last = func.max(REQUESTS.c.at)
    queries = select(func.substr(REQUESTS.c.query, 1, _QUERY_CHARACTERS), func.count(), last)
    queries = queries.where(REQUESTS.c.project == asked.project, REQUESTS.c.uses == 0).group_by(REQUESTS.c.query)
    queries = queries.order_by(func.count().desc(), last.desc(), REQUESTS.c.query).limit(asked.limit)
    return tuple(
        UnansweredQuery(query=query, count=count, last_at=at) for query, count, at in await connection.execute(queries)
    )
