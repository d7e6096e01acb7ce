"""What search reads of the record: all of it at one moment, for it waits for each step."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, bindparam, case, false, func, select

from skillbus.contracts.learner.index import FindKnowledge
from skillbus.learner.adapters.sql.index.unindexed import newest_unindexed
from skillbus.learner.adapters.sql.item.rows import ITEM_COLUMNS, item_of
from skillbus.learner.adapters.sql.project.project_chain import chain_of
from skillbus.learner.adapters.sql.record import available
from skillbus.learner.adapters.sql.tables import FEEDBACK, KNOWLEDGE
from skillbus.learner.domain.index.finder import Kept, Snapshot
from skillbus.learner.domain.usage.votes import Vote
from skillbus.sql.reads import Reads

_of = KNOWLEDGE.c
_told = _of.id.in_(bindparam("whole", expanding=True))
"""Of a content that nobody asks for not a page is read."""
_content = case((_told, func.substr(_of.content, 1, bindparam("characters"))), else_="")
# Made once: search waits for what is built here.
_SHOWN: Final = select(
    *(_content if column is _of.content else column for column in ITEM_COLUMNS),
    case((_told, func.length(_of.content) > bindparam("characters")), else_=false()),
    _of.indexed_version,
    _of.indexed_at,
).where(_of.id.in_(bindparam("ids", expanding=True)), _of.project.in_(bindparam("projects", expanding=True)))
_VOTES: Final = select(FEEDBACK.c.id, FEEDBACK.c.helpful, FEEDBACK.c.at).where(
    FEEDBACK.c.project.in_(bindparam("projects", expanding=True)), FEEDBACK.c.id.in_(bindparam("ids", expanding=True))
)


class SqlFinding:
    """The record, for search."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def snapshot(self, wanted: FindKnowledge, at: datetime, since: datetime | None) -> Snapshot:
        with available():
            return await self._reads.run(lambda connection: _snapshot(connection, wanted, at, since))


def _snapshot(connection: Connection, wanted: FindKnowledge, at: datetime, since: datetime | None) -> Snapshot:
    projects = chain_of(connection, wanted.project) if wanted.inherit else (wanted.project,)
    unindexed = newest_unindexed(connection, wanted, projects, at, since)
    ids = [*dict.fromkeys(wanted.ids), *unindexed]
    if not ids:
        return Snapshot(projects, {})
    whole = frozenset((*wanted.ids[: wanted.whole], *unindexed))
    kept = _shown(connection, ids, whole, projects, wanted.content_characters)
    return Snapshot(projects, kept, unindexed, _votes(connection, ids, projects))


def _shown(
    connection: Connection, ids: Sequence[str], whole: Collection[str], projects: Sequence[str], characters: int
) -> Mapping[str, Kept]:
    wanted = {"ids": ids, "whole": list(whole), "projects": projects, "characters": characters}
    kept = {}
    for row in connection.execute(_SHOWN, wanted):
        item, (cut, indexed_version, indexed_at) = item_of(row), row[-3:]
        kept[item.id] = Kept(item, bool(cut), indexed_version, indexed_at, item.id not in whole)
    return kept


def _votes(connection: Connection, ids: Sequence[str], projects: Sequence[str]) -> Mapping[str, Sequence[Vote]]:
    votes: dict[str, list[Vote]] = {}
    for item, helpful, at in connection.execute(_VOTES, {"ids": ids, "projects": projects}):
        votes.setdefault(item, []).append(Vote(helpful, at))
    return votes
