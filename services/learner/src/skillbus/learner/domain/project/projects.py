"""Projects, and what was done in them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from skillbus.contracts.knowledge_projects import AuditListed, KnowledgeProject, ListAudit, NameProject, SetParent
from skillbus.learner.domain.item import cursor as pages
from skillbus.learner.domain.item.lifecycle import By
from skillbus.learner.domain.item.ports import AuditLog, ProjectStore


@dataclass(frozen=True, slots=True)
class Projects:
    """Everything raises LearnerError."""

    store: ProjectStore
    log: AuditLog
    now: Callable[[], datetime]

    async def parents(self, request: NameProject) -> KnowledgeProject:
        return KnowledgeProject(project=request.project, parents=await self.store.parents(request.project))

    async def set_parent(self, request: SetParent) -> KnowledgeProject:
        by = By(request.actor, self.now())
        return KnowledgeProject(
            project=request.project, parents=await self.store.set_parent(request.project, request.parent, by)
        )

    async def audit(self, request: ListAudit) -> AuditListed:
        found = await self.log.entries(request.project, request.id, request.after, request.limit + 1)
        entries = pages.fitting(found[: request.limit])
        more = len(entries) < len(found)
        return AuditListed(entries=tuple(entries), next=entries[-1].sequence if more else None)
