"""What is asked of items, their history and their projects: one call of the domain each."""

from dataclasses import dataclass

from skillbus.common.bus.responder import Route, route
from skillbus.contracts import knowledge_items, knowledge_projects, knowledge_versions
from skillbus.contracts.endpoint import Check
from skillbus.contracts.knowledge_versions import KnowledgeReviewed, ReviewKnowledge
from skillbus.learner.domain.errors import KnowledgeUnavailableError
from skillbus.learner.domain.item.browser import ItemBrowser
from skillbus.learner.domain.item.knowledge_base import KnowledgeBase
from skillbus.learner.domain.item.ports import Record
from skillbus.learner.domain.project.projects import Projects


@dataclass(frozen=True, slots=True)
class ItemHandlers:
    """Answers requests about items. Most are of the domain as they are."""

    base: KnowledgeBase
    browsing: ItemBrowser
    projects: Projects
    record: Record

    def routes(self) -> tuple[Route, ...]:
        return (
            route(knowledge_items.CREATE_KNOWLEDGE, self.base.create),
            route(knowledge_items.GET_KNOWLEDGE, self.base.get),
            route(knowledge_items.LIST_KNOWLEDGE, self.browsing.page),
            route(knowledge_items.UPDATE_KNOWLEDGE, self.base.update),
            route(knowledge_items.ARCHIVE_KNOWLEDGE, self.base.archive),
            route(knowledge_items.RESTORE_KNOWLEDGE, self.base.restore),
            route(knowledge_versions.GET_KNOWLEDGE_HISTORY, self.browsing.versions),
            route(knowledge_versions.DIFF_KNOWLEDGE, self.browsing.diff, permits=8),
            route(knowledge_versions.REVIEW_KNOWLEDGE, self.review_knowledge),
            route(knowledge_projects.LIST_KNOWLEDGE_AUDIT, self.projects.audit),
            route(knowledge_projects.SET_KNOWLEDGE_PARENT, self.projects.set_parent),
            route(knowledge_projects.GET_KNOWLEDGE_PROJECT, self.projects.parents),
        )

    async def review_knowledge(self, request: ReviewKnowledge) -> KnowledgeReviewed:
        """What became of each."""
        results = await self.base.review(request)
        succeeded = sum(result.ok for result in results)
        return KnowledgeReviewed(results=results, succeeded=succeeded, failed=len(results) - succeeded)

    async def record_answers(self) -> Check:
        """Whether the database answers."""
        try:
            await self.record.check()
        except KnowledgeUnavailableError as error:
            return Check(name="record", ready=False, detail=str(error))
        return Check(name="record", ready=True)
