"""A project and those above it, by one statement."""

from typing import Final

from sqlalchemy import Connection, String, bindparam, cast, literal, select

from skillbus.learner.adapters.sql.tables import PROJECTS
from skillbus.learner.domain.project.ancestry import LEVELS

_itself = select(cast(bindparam("project"), String(64)).label("project"), literal(0).label("level"))
_level = _itself.cte("chain", recursive=True)
_above = select(PROJECTS.c.parent, _level.c.level + 1).join(_level, PROJECTS.c.project == _level.c.project)
_chain = _level.union_all(_above.where(_level.c.level < LEVELS))
_CHAIN: Final = select(_chain.c.project).order_by(_chain.c.level)


def chain_of(connection: Connection, project: str) -> tuple[str, ...]:
    """The project, then those above it, nearest first."""
    return tuple(connection.execute(_CHAIN, {"project": project}).scalars())
