"""What is asked of items, their history and their projects: one call of the domain each."""

from dataclasses import dataclass

from skillbus.common.bus.responder import Route, route
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
)
from skillbus.contracts.learner.projects import GET_KNOWLEDGE_PROJECT, LIST_KNOWLEDGE_AUDIT, SET_KNOWLEDGE_PARENT
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    REVIEW_KNOWLEDGE,
    KnowledgeReviewed,
    ReviewKnowledge,
)
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
            route(CREATE_KNOWLEDGE, self.base.create),
            route(GET_KNOWLEDGE, self.base.get),
            route(LIST_KNOWLEDGE, self.browsing.page),
            route(UPDATE_KNOWLEDGE, self.base.update),
            route(ARCHIVE_KNOWLEDGE, self.base.archive),
            route(RESTORE_KNOWLEDGE, self.base.restore),
            route(GET_KNOWLEDGE_HISTORY, self.browsing.versions),
            route(DIFF_KNOWLEDGE, self.browsing.diff, permits=8),
            route(REVIEW_KNOWLEDGE, self.review_knowledge),
            route(LIST_KNOWLEDGE_AUDIT, self.projects.audit),
            route(SET_KNOWLEDGE_PARENT, self.projects.set_parent),
            route(GET_KNOWLEDGE_PROJECT, self.projects.parents),
        )

    async def review_knowledge(self, request: ReviewKnowledge) -> KnowledgeReviewed:
        """What became of each."""
        results = await self.base.review(request)
        succeeded = sum(result.ok for result in results)
        return KnowledgeReviewed(results=results, succeeded=succeeded, failed=len(results) - succeeded)

    async def record_answers(self) -> HealthCheck:
        """Whether the database answers."""
        try:
            await self.record.check()
        except KnowledgeUnavailableError as error:
            return HealthCheck(name="record", ready=False, detail=str(error))
        return HealthCheck(name="record", ready=True)
