"""KnowledgeUse of single items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, func, select

from skillbus.contracts.learner.usage import ItemUsage
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE, REQUESTS, USES
from skillbus.learner.domain.usage.votes import estimate_rate

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
