"""How items are used: what the tables say, item by item."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from skillbus.contracts.learner.usage import ItemUsage
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE, REQUESTS, USES
from skillbus.learner.domain.usage.votes import rate

_TITLE_CHARACTERS: Final = 200
_SCENES: Final = 20
"""Of an item, those that it is used for most: anybody can name new ones."""


@dataclass(slots=True)
class _Counts:
    shown: int = 0
    applied: int = 0
    positions: int = 0
    scenes: dict[str, int] = field(default_factory=dict)
    last: datetime | None = None
    helpful: int = 0
    unhelpful: int = 0


async def usage_of(
    connection: AsyncConnection, project: str, ids: Sequence[str], asking: str | None = None
) -> Mapping[str, ItemUsage]:
    """How items of a project are used, by id; only in requests of the `asking` project where one is given."""
    counts = {item: _Counts() for item in ids}
    if not ids:
        return {}
    await _count_uses(connection, counts, project, asking)
    voted = select(FEEDBACK.c.id, FEEDBACK.c.helpful, func.count()).group_by(FEEDBACK.c.id, FEEDBACK.c.helpful)
    voted = voted.where(FEEDBACK.c.project == project, FEEDBACK.c.id.in_(ids))
    for item, helpful, count in await connection.execute(voted):
        if helpful:
            counts[item].helpful = count
        else:
            counts[item].unhelpful = count
    titled = select(KNOWLEDGE.c.id, func.substr(KNOWLEDGE.c.title, 1, _TITLE_CHARACTERS)).where(KNOWLEDGE.c.id.in_(ids))
    titles = {row[0]: row[1] for row in await connection.execute(titled)}
    return {item: _usage(item, titles.get(item, ""), one) for item, one in counts.items()}


async def _count_uses(
    connection: AsyncConnection, counts: Mapping[str, _Counts], project: str, asking: str | None
) -> None:
    columns = (USES.c.id, REQUESTS.c.applied, REQUESTS.c.scene)
    used = select(*columns, func.count(), func.sum(USES.c.position), func.max(REQUESTS.c.at)).group_by(*columns)
    used = used.join(REQUESTS, REQUESTS.c.request_id == USES.c.request_id)
    used = used.where(USES.c.project == project, USES.c.id.in_(counts))
    if asking is not None:
        used = used.where(REQUESTS.c.project == asking)
    for item, applied, scene, count, positions, last in await connection.execute(used):
        one = counts[item]
        one.shown += 0 if applied else count
        one.applied += count if applied else 0
        one.positions += int(positions)
        one.scenes[scene] = one.scenes.get(scene, 0) + count
        one.last = last if one.last is None else max(last, one.last)


def _usage(item: str, title: str, counts: _Counts) -> ItemUsage:
    uses = counts.shown + counts.applied
    return ItemUsage(
        id=item,
        title=title,
        shown=counts.shown,
        applied=counts.applied,
        helpful=counts.helpful,
        unhelpful=counts.unhelpful,
        rate=rate(counts.helpful, counts.unhelpful),
        mean_position=counts.positions / uses if uses else None,
        scenes=dict(_most(counts.scenes.items())),
        last_used_at=counts.last,
    )


def _most(scenes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(scenes, key=lambda scene: (-scene[1], scene[0]))[:_SCENES]
