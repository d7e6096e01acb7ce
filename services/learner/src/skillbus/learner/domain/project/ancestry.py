"""Which project inherits from which: a tree of few levels."""

from collections.abc import Mapping
from typing import Final

from skillbus.learner.domain.errors import ProjectsError

LEVELS: Final = 8
"""Projects above one. Source: `contracts.knowledge.KnowledgeProject`."""


def above(project: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Those above a project, nearest first."""
    found: list[str] = []
    while (parent := parents.get(project)) is not None and parent not in found:
        found.append(parent)
        project = parent
    return tuple(found)


def with_parent(project: str, parent: str, parents: Mapping[str, str]) -> Mapping[str, str]:
    """All parents when `project` has this one. Raises ProjectsError."""
    line = (parent, *above(parent, parents))
    if project in line:
        raise ProjectsError(f"{' → '.join((project, *line))} would be a circle: choose a parent that is not below it")
    after = {**parents, project: parent}
    deepest = max(len(above(other, after)) for other in after)
    if deepest > LEVELS:
        raise ProjectsError(
            f"a project would have {deepest} above it, and {LEVELS} is the most: choose a higher parent"
        )
    return after
