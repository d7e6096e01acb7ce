"""The tree of projects, where each inherits the items of its ancestors, and their audit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from skillbus.common.paging import cut_page, measure_json
from skillbus.contracts.learner.projects import (
    GetKnowledgeProject,
    KnowledgeAuditEntry,
    KnowledgeAuditListed,
    KnowledgeProject,
    ListKnowledgeAudit,
    SetKnowledgeParent,
)
from skillbus.learner.domain.errors import ProjectsError
from skillbus.learner.domain.item.lifecycle import Attribution

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


class ProjectStore(Protocol):
    """The tree of projects, and the audit, which only grows. Every method raises KnowledgeUnavailableError."""

    async def list_parents(self, project: str) -> tuple[str, ...]:
        """Return the ancestors of a project, nearest first."""

    async def set_parent(self, project: str, parent: str | None, by: Attribution) -> tuple[str, ...]:
        """Set or remove the parent and return the new ancestors. Raises ProjectsError."""

    async def list_entries(
        self, project: str, item: str | None, after: int, limit: int
    ) -> Sequence[KnowledgeAuditEntry]:
        """Return up to `limit` entries with a greater sequence than `after`, oldest first."""


@dataclass(frozen=True, slots=True)
class Projects:
    """Sets and reads the parents of projects, and reads the audit. Every method raises LearnerError."""

    store: ProjectStore
    now: Callable[[], datetime]

    async def get_project(self, request: GetKnowledgeProject) -> KnowledgeProject:
        return KnowledgeProject(project=request.project, parents=await self.store.list_parents(request.project))

    async def set_parent(self, request: SetKnowledgeParent) -> KnowledgeProject:
        by = Attribution(request.actor, self.now())
        parents = await self.store.set_parent(request.project, request.parent, by)
        return KnowledgeProject(project=request.project, parents=parents)

    async def list_audit(self, request: ListKnowledgeAudit) -> KnowledgeAuditListed:
        found = await self.store.list_entries(request.project, request.id, request.after, request.limit + 1)
        entries = cut_page(found[: request.limit], measure_json)
        more = len(entries) < len(found)
        return KnowledgeAuditListed(entries=tuple(entries), next=entries[-1].sequence if more else None)
