"""Projects, and what was done in them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from skillbus.contracts.learner.projects import (
    GetKnowledgeProject,
    KnowledgeAuditListed,
    KnowledgeProject,
    ListKnowledgeAudit,
    SetKnowledgeParent,
)
from skillbus.learner.domain.item import cursor as pages
from skillbus.learner.domain.item.lifecycle import By
from skillbus.learner.domain.item.ports import AuditLog, ProjectStore


@dataclass(frozen=True, slots=True)
class Projects:
    """Everything raises LearnerError."""

    store: ProjectStore
    log: AuditLog
    now: Callable[[], datetime]

    async def parents(self, request: GetKnowledgeProject) -> KnowledgeProject:
        return KnowledgeProject(project=request.project, parents=await self.store.parents(request.project))

    async def set_parent(self, request: SetKnowledgeParent) -> KnowledgeProject:
        by = By(request.actor, self.now())
        return KnowledgeProject(
            project=request.project, parents=await self.store.set_parent(request.project, request.parent, by)
        )

    async def audit(self, request: ListKnowledgeAudit) -> KnowledgeAuditListed:
        found = await self.log.entries(request.project, request.id, request.after, request.limit + 1)
        entries = pages.fitting(found[: request.limit])
        more = len(entries) < len(found)
        return KnowledgeAuditListed(entries=tuple(entries), next=entries[-1].sequence if more else None)
