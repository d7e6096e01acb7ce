"""The tree of projects: each inherits the items of its ancestors."""

from collections.abc import Mapping
from typing import Final

from skillbus.learner.domain.errors import ProjectsError

LEVELS: Final = 8
"""Largest number of ancestors of a project. Source: `contracts.learner.projects.KnowledgeProject`."""


def list_ancestors(project: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ancestors of a project, nearest first."""
    found: list[str] = []
    while (parent := parents.get(project)) is not None and parent not in found:
        found.append(parent)
        project = parent
    return tuple(found)


def assign_parent(project: str, parent: str, parents: Mapping[str, str]) -> Mapping[str, str]:
    """Return all parents after `project` got this one. Raises ProjectsError."""
    line = (parent, *list_ancestors(parent, parents))
    if project in line:
        raise ProjectsError(f"{' → '.join((project, *line))} would be a cycle: choose a parent that is not below it")
    after = {**parents, project: parent}
    deepest = max(len(list_ancestors(other, after)) for other in after)
    if deepest > LEVELS:
        raise ProjectsError(
            f"a project would have {deepest} ancestors, and {LEVELS} is the limit: choose a parent nearer to the root"
        )
    return after
