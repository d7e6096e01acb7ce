"""The tree of projects, as a table of pairs of project and parent, and the audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, String, bindparam, cast, delete, insert, literal, select, text

from skillbus.contracts.learner.projects import KnowledgeAuditEntry
from skillbus.learner.adapters.sql.change_writer import write_audit
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import AUDIT, PROJECTS
from skillbus.learner.domain.item.lifecycle import Attribution
from skillbus.learner.domain.projects import LEVELS, assign_parent, list_ancestors

_itself = select(cast(bindparam("project"), String(64)).label("project"), literal(0).label("level"))
_level = _itself.cte("chain", recursive=True)
_above = select(PROJECTS.c.parent, _level.c.level + 1).join(_level, PROJECTS.c.project == _level.c.project)
_chain = _level.union_all(_above.where(_level.c.level < LEVELS))
_CHAIN: Final = select(_chain.c.project).order_by(_chain.c.level)


def list_chain(connection: Connection, project: str) -> tuple[str, ...]:
    """Return the project and its ancestors, nearest first, with one statement."""
    return tuple(connection.execute(_CHAIN, {"project": project}).scalars())


@dataclass(frozen=True, slots=True)
class SqlProjectStore:
    """Parents are set by one transaction at a time, which sees the whole tree."""

    database: KnowledgeDatabase

    async def list_parents(self, project: str) -> tuple[str, ...]:
        return await self.database.read(lambda connection: list_ancestors(project, _load_parents(connection)))

    async def set_parent(self, project: str, parent: str | None, by: Attribution) -> tuple[str, ...]:
        def work(connection: Connection) -> tuple[str, ...]:
            if connection.dialect.name == "postgresql":
                connection.execute(text("LOCK TABLE knowledge_projects IN SHARE ROW EXCLUSIVE MODE"))
            before = _load_parents(connection)
            if before.get(project) == parent:
                return list_ancestors(project, before)
            after = {other: its for other, its in before.items() if other != project}
            connection.execute(delete(PROJECTS).where(PROJECTS.c.project == project))
            if parent is not None:
                after = dict(assign_parent(project, parent, after))
                connection.execute(insert(PROJECTS).values(project=project, parent=parent))
            entry = {"at": by.at, "actor": by.actor, "action": "parent_set", "project": project}
            write_audit(connection, [{**entry, "reason": f"parent: {parent}"}])
            return list_ancestors(project, after)

        return await self.database.write(work)

    async def list_entries(
        self, project: str, item: str | None, after: int, limit: int
    ) -> Sequence[KnowledgeAuditEntry]:
        rows = select(AUDIT).where(AUDIT.c.project == project, AUDIT.c.sequence > after)
        if item is not None:
            rows = rows.where(AUDIT.c.id == item)
        rows = rows.order_by(AUDIT.c.sequence).limit(limit)

        def work(connection: Connection) -> list[KnowledgeAuditEntry]:
            return [KnowledgeAuditEntry.model_validate(dict(row)) for row in connection.execute(rows).mappings()]

        return await self.database.read(work)


def _load_parents(connection: Connection) -> Mapping[str, str]:
    pairs = connection.execute(select(PROJECTS.c.project, PROJECTS.c.parent))
    return {row.project: row.parent for row in pairs}
