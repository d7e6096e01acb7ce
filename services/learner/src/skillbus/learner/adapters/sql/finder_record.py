"""Candidates of a search read from the record, in one transaction: a search waits for each step."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import BindParameter, Connection, and_, bindparam, func, literal_column, select

from skillbus.contracts.learner.index import FindKnowledge
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.project_store import list_chain
from skillbus.learner.adapters.sql.tables import FEEDBACK, ITEM_COLUMNS, KNOWLEDGE, parse_item
from skillbus.learner.domain.index.finder import CandidateSnapshot, RecordedCandidate
from skillbus.learner.domain.usage import Vote

_of = KNOWLEDGE.c
# The condition of the partial index, as it is written there: with a bound value SQLite would not use the index.
UNINDEXED: Final = and_(_of.status == literal_column("'active'"), _of.indexed_version < _of.version)

_projects: Final[BindParameter[str]] = bindparam("projects", expanding=True)
_ids: Final[BindParameter[str]] = bindparam("ids", expanding=True)
_content = func.substr(_of.content, 1, bindparam("characters"))
# The statements are built once: a search waits for what is built per request.
_CANDIDATES: Final = select(
    *(_content if column is _of.content else column for column in ITEM_COLUMNS),
    func.length(_of.content) > bindparam("characters"),
    _of.indexed_version,
).where(_of.id.in_(_ids), _of.project.in_(_projects))
_VOTES: Final = select(FEEDBACK.c.id, FEEDBACK.c.helpful, FEEDBACK.c.at).where(
    FEEDBACK.c.project.in_(_projects), FEEDBACK.c.id.in_(_ids)
)
_BEHIND: Final = select(func.count()).select_from(KNOWLEDGE).where(_of.project.in_(_projects), UNINDEXED)


@dataclass(frozen=True, slots=True)
class SqlCandidates:
    """A `CandidateRecord`."""

    database: KnowledgeDatabase

    async def load_snapshot(self, wanted: FindKnowledge) -> CandidateSnapshot:
        def work(connection: Connection) -> CandidateSnapshot:
            projects = list_chain(connection, wanted.project) if wanted.inherit else (wanted.project,)
            behind = connection.execute(_BEHIND, {"projects": projects}).scalar_one()
            if not wanted.ids:
                return CandidateSnapshot(projects, {}, behind)
            asked = {"ids": wanted.ids, "projects": projects}
            found = {}
            for row in connection.execute(_CANDIDATES, {**asked, "characters": wanted.content_characters}):
                item, (cut, indexed_version) = parse_item(row), row[-2:]
                found[item.id] = RecordedCandidate(item, bool(cut), indexed_version)
            votes: dict[str, list[Vote]] = {}
            for voted, helpful, at in connection.execute(_VOTES, asked):
                votes.setdefault(voted, []).append(Vote(helpful, at))
            return CandidateSnapshot(projects, found, behind, votes)

        return await self.database.read(work)
