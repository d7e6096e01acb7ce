"""Use of single items, statistics of a project, and reports on items that need attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, select

from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeStatus
from skillbus.contracts.learner.usage import GetKnowledgeStats, ItemUsage, KnowledgeStats, UnansweredQuery
from skillbus.learner.adapters.sql.daily_usage import load_daily_usage
from skillbus.learner.adapters.sql.finder_record import UNINDEXED
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE, REQUESTS, USES
from skillbus.learner.domain.usage import estimate_rate

_QUERY_CHARACTERS: Final = 500
_columns = KNOWLEDGE.c
_TITLE_CHARACTERS: Final = 200
_SCENES: Final = 20
"""Scenes reported for an item, most used first: any caller can name new ones."""


@dataclass(slots=True)
class _Counts:
    shown: int = 0
    applied: int = 0
    positions: int = 0
    scenes: dict[str, int] = field(default_factory=dict)
    last: datetime | None = None
    helpful: int = 0
    unhelpful: int = 0


def load_item_usage(
    connection: Connection, project: str, ids: Sequence[str], asking: str | None = None
) -> Mapping[str, ItemUsage]:
    """Return the use of items of a project by id; with `asking`, only in requests of that project."""
    counts = {item: _Counts() for item in ids}
    if not ids:
        return {}
    _count_uses(connection, counts, project, asking)
    voted = select(FEEDBACK.c.id, FEEDBACK.c.helpful, func.count()).group_by(FEEDBACK.c.id, FEEDBACK.c.helpful)
    voted = voted.where(FEEDBACK.c.project == project, FEEDBACK.c.id.in_(ids))
    for item, helpful, count in connection.execute(voted):
        if helpful:
            counts[item].helpful = count
        else:
            counts[item].unhelpful = count
    titled = select(KNOWLEDGE.c.id, func.substr(KNOWLEDGE.c.title, 1, _TITLE_CHARACTERS)).where(KNOWLEDGE.c.id.in_(ids))
    titles = {row[0]: row[1] for row in connection.execute(titled)}
    return {item: _to_usage(item, titles.get(item, ""), one) for item, one in counts.items()}


def _count_uses(connection: Connection, counts: Mapping[str, _Counts], project: str, asking: str | None) -> None:
    columns = (USES.c.id, REQUESTS.c.applied, REQUESTS.c.scene)
    used = select(*columns, func.count(), func.sum(USES.c.position), func.max(REQUESTS.c.at)).group_by(*columns)
    used = used.join(REQUESTS, REQUESTS.c.request_id == USES.c.request_id)
    used = used.where(USES.c.project == project, USES.c.id.in_(counts))
    if asking is not None:
        used = used.where(REQUESTS.c.project == asking)
    for item, applied, scene, count, positions, last in connection.execute(used):
        one = counts[item]
        one.shown += 0 if applied else count
        one.applied += count if applied else 0
        one.positions += int(positions)
        one.scenes[scene] = one.scenes.get(scene, 0) + count
        one.last = last if one.last is None else max(last, one.last)


def _to_usage(item: str, title: str, counts: _Counts) -> ItemUsage:
    uses = counts.shown + counts.applied
    return ItemUsage(
        id=item,
        title=title,
        shown=counts.shown,
        applied=counts.applied,
        helpful=counts.helpful,
        unhelpful=counts.unhelpful,
        rate=estimate_rate(counts.helpful, counts.unhelpful),
        mean_position=counts.positions / uses if uses else None,
        scenes=dict(sorted(counts.scenes.items(), key=lambda scene: (-scene[1], scene[0]))[:_SCENES]),
        last_used_at=counts.last,
    )


def load_stats(
    connection: Connection, asked: GetKnowledgeStats, stale_before: datetime, now: datetime
) -> KnowledgeStats:
    """Return statistics of a project: uses of its items, and requests of its callers."""
    project, limit = asked.project, asked.limit
    active = and_(_columns.project == project, _columns.status == KnowledgeStatus.ACTIVE.value)
    unused = and_(active, ~exists().where(USES.c.project == _columns.project, USES.c.id == _columns.id))
    helped = exists().where(
        FEEDBACK.c.project == _columns.project,
        FEEDBACK.c.id == _columns.id,
        FEEDBACK.c.helpful,
        FEEDBACK.c.at >= stale_before,
    )
    stale = and_(active, _columns.updated_at < stale_before, ~helped)
    used = select(USES.c.id).join(KNOWLEDGE, _columns.id == USES.c.id).group_by(USES.c.id)
    used = used.where(USES.c.project == project, _columns.project == project)
    ids = select(_columns.id)
    reports = {
        "most_used": _load_ids(connection, used.order_by(func.count().desc(), USES.c.id), limit),
        "never_used": _load_ids(connection, ids.where(unused).order_by(_columns.created_at, _columns.id), limit),
        "stale": _load_ids(connection, ids.where(stale).order_by(_columns.updated_at, _columns.id), limit),
        "least_helpful": _load_least_helpful(connection, project)[:limit],
    }
    usage = load_item_usage(connection, project, list({item: None for ids in reports.values() for item in ids}))
    shown: dict[str, tuple[ItemUsage, ...]] = {
        report: tuple(usage[item] for item in ids) for report, ids in reports.items()
    }
    kinds = select(_columns.status, _columns.type, func.count()).where(_columns.project == project)
    counts = {
        (status, kind): count
        for status, kind, count in connection.execute(kinds.group_by(_columns.status, _columns.type))
    }
    requests = _count_flag(connection, REQUESTS.c.applied, REQUESTS.c.project == project)
    votes = _count_flag(connection, FEEDBACK.c.helpful, FEEDBACK.c.project == project)
    return KnowledgeStats(
        project=project,
        total=sum(counts.values()),
        by_status={status: sum(n for (s, _), n in counts.items() if s == status.value) for status in KnowledgeStatus},
        by_type=dict.fromkeys(KNOWN_TYPES, 0)
        | {kind: count for (status, kind), count in sorted(counts.items()) if status == KnowledgeStatus.ACTIVE.value},
        unindexed=_count_items(connection, and_(_columns.project == project, UNINDEXED)),
        searches=requests.get(False, 0),
        contexts=requests.get(True, 0),
        feedback=estimate_rate(votes.get(True, 0), votes.get(False, 0)),
        most_used=shown["most_used"],
        never_used=shown["never_used"],
        never_used_count=_count_items(connection, unused),
        stale=shown["stale"],
        stale_count=_count_items(connection, stale),
        least_helpful=shown["least_helpful"],
        unanswered=_load_unanswered(connection, asked),
        daily=load_daily_usage(connection, project, asked.days, now),
    )


def _load_ids(connection: Connection, wanted: Select[str], limit: int) -> Sequence[str]:
    return connection.execute(wanted.limit(limit)).scalars().all()


def _count_items(connection: Connection, condition: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).select_from(KNOWLEDGE).where(condition)).scalar_one()


def _count_flag(connection: Connection, flag: ColumnElement[bool], condition: ColumnElement[bool]) -> dict[bool, int]:
    rows = connection.execute(select(flag, func.count()).where(condition).group_by(flag))
    return {row[0]: row[1] for row in rows}


def _load_least_helpful(connection: Connection, project: str) -> Sequence[str]:
    """Return active items with an unhelpful vote, by the upper end of the interval of their rate."""
    votes = select(FEEDBACK.c.id, FEEDBACK.c.helpful, func.count()).join(KNOWLEDGE, _columns.id == FEEDBACK.c.id)
    votes = votes.where(FEEDBACK.c.project == project, _columns.status == KnowledgeStatus.ACTIVE.value)
    counts: dict[str, dict[bool, int]] = {}
    for item, helpful, count in connection.execute(votes.group_by(FEEDBACK.c.id, FEEDBACK.c.helpful)):
        counts.setdefault(item, {})[helpful] = count
    rates = {item: estimate_rate(c.get(True, 0), c.get(False, 0)) for item, c in counts.items() if False in c}
    return [item for _, item in sorted((rate.high, item) for item, rate in rates.items() if rate is not None)]


def _load_unanswered(connection: Connection, asked: GetKnowledgeStats) -> tuple[UnansweredQuery, ...]:
    last = func.max(REQUESTS.c.at)
    queries = select(func.substr(REQUESTS.c.query, 1, _QUERY_CHARACTERS), func.count(), last)
    queries = queries.where(REQUESTS.c.project == asked.project, REQUESTS.c.uses == 0).group_by(REQUESTS.c.query)
    queries = queries.order_by(func.count().desc(), last.desc(), REQUESTS.c.query).limit(asked.limit)
    return tuple(
        UnansweredQuery(query=query, count=count, last_at=at) for query, count, at in connection.execute(queries)
    )
