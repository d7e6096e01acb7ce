"""Which project inherits from which, in a table of pairs."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import delete, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from skillbus.learner.adapters.sql.item.change_writer import write_audit
from skillbus.learner.adapters.sql.record import reading, writing
from skillbus.learner.adapters.sql.tables import PROJECTS
from skillbus.learner.domain.item.lifecycle import By
from skillbus.learner.domain.project.ancestry import above, with_parent

PARENT_SET: Final = "parent_set"


class SqlProjectStore:
    """Whoever sets a parent sees all of them, and nobody else sets one meanwhile."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def parents(self, project: str) -> tuple[str, ...]:
        async with reading(self._engine) as connection:
            return above(project, await _all(connection))

    async def set_parent(self, project: str, parent: str | None, by: By) -> tuple[str, ...]:
        async with writing(self._engine) as connection:
            if connection.dialect.name == "postgresql":
                await connection.execute(text("LOCK TABLE knowledge_projects IN SHARE ROW EXCLUSIVE MODE"))
            before = await _all(connection)
            if before.get(project) == parent:
                return above(project, before)
            after = {other: its for other, its in before.items() if other != project}
            if parent is not None:
                after = dict(with_parent(project, parent, after))
            await _write(connection, project, parent, by)
        return above(project, after)


async def _all(connection: AsyncConnection) -> Mapping[str, str]:
    pairs = await connection.execute(select(PROJECTS.c.project, PROJECTS.c.parent))
    return {row.project: row.parent for row in pairs}


async def _write(connection: AsyncConnection, project: str, parent: str | None, by: By) -> None:
    await connection.execute(delete(PROJECTS).where(PROJECTS.c.project == project))
    if parent is not None:
        await connection.execute(insert(PROJECTS).values(project=project, parent=parent))
    said = {"at": by.at, "actor": by.actor, "action": PARENT_SET, "project": project, "reason": f"parent: {parent}"}
    await connection.run_sync(write_audit, [said])
