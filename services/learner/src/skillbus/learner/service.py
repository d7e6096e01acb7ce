"""Routes of the learner: each request and event is one call of the domain."""

from dataclasses import dataclass

from skillbus.common.bus.events import Delivery, PermanentError, Subscription
from skillbus.common.bus.responder import Route, route
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.learner import bulk, index, items, learning_jobs, projects, proposals, usage, versions
from skillbus.contracts.resources import LEARNER_INDEXED, LEARNER_TRIGGERS, LEARNER_USES
from skillbus.learner.domain.bulk import Importer, ItemExporter
from skillbus.learner.domain.errors import KnowledgeUnavailableError, UnfitError
from skillbus.learner.domain.index.finder import CandidateFinder
from skillbus.learner.domain.index.index_feed import IndexFeed
from skillbus.learner.domain.item.knowledge_base import KnowledgeBase
from skillbus.learner.domain.item.listing import ItemBrowser
from skillbus.learner.domain.item.ports import RecordHealth
from skillbus.learner.domain.item.review_queue import ReviewQueue
from skillbus.learner.domain.learning.jobs import LearningJobs
from skillbus.learner.domain.learning.triggers import LearningTriggers
from skillbus.learner.domain.projects import Projects
from skillbus.learner.domain.usage import UsageTracker


@dataclass(frozen=True, slots=True)
class LearnerHandlers:
    """Binds endpoints and events to methods of the domain."""

    base: KnowledgeBase
    browser: ItemBrowser
    reviews: ReviewQueue
    projects: Projects
    importer: Importer
    exporter: ItemExporter
    finder: CandidateFinder
    feed: IndexFeed
    usage: UsageTracker
    learning: LearningJobs
    record: RecordHealth

    def routes(self) -> tuple[Route, ...]:
        return (
            route(items.CREATE_KNOWLEDGE, self.base.create_item),
            route(items.GET_KNOWLEDGE, self.base.get_item),
            route(items.LIST_KNOWLEDGE, self.browser.list_items),
            route(items.UPDATE_KNOWLEDGE, self.base.update_item),
            route(items.ARCHIVE_KNOWLEDGE, self.base.archive_item),
            route(items.RESTORE_KNOWLEDGE, self.base.restore_item),
            route(versions.GET_KNOWLEDGE_HISTORY, self.browser.list_versions),
            route(versions.DIFF_KNOWLEDGE, self.browser.diff_versions, permits=8),
            route(versions.REVIEW_KNOWLEDGE, self.reviews.review_items),
            route(proposals.LIST_PROPOSALS, self.reviews.list_proposals),
            route(proposals.GET_PROPOSAL, self.reviews.get_proposal),
            route(projects.LIST_KNOWLEDGE_AUDIT, self.projects.list_audit),
            route(projects.SET_KNOWLEDGE_PARENT, self.projects.set_parent),
            route(projects.GET_KNOWLEDGE_PROJECT, self.projects.get_project),
            route(bulk.PUT_KNOWLEDGE, self.importer.import_items, permits=32),
            route(bulk.EXPORT_KNOWLEDGE, self.exporter.export_page, permits=8),
            route(index.FIND_KNOWLEDGE, self.finder.find_knowledge),
            route(index.READ_KNOWLEDGE, self.feed.read_items, permits=16),
            route(index.LIST_KNOWLEDGE_DIGESTS, self.feed.list_digests, permits=8),
            route(usage.GIVE_FEEDBACK, self.usage.give_feedback, permits=64),
            route(usage.GET_KNOWLEDGE_USAGE, self.usage.record.get_usage, permits=64),
            route(usage.GET_KNOWLEDGE_STATS, self.usage.get_stats, permits=4),
            route(learning_jobs.START_LEARNING, self.learning.start_job, permits=16),
            route(learning_jobs.GET_LEARNING_JOB, self.learning.get_job),
            route(learning_jobs.LIST_LEARNING_JOBS, self.learning.list_jobs, permits=8),
            route(learning_jobs.CANCEL_LEARNING, self.learning.cancel_job),
            route(learning_jobs.GET_LEARNING_REPORT, self.learning.get_report, permits=4),
            route(learning_jobs.SET_LEARNING_SOURCE, self.learning.set_source),
            route(learning_jobs.LIST_LEARNING_SOURCES, self.learning.list_sources),
        )

    def subscriptions(self) -> tuple[Subscription, ...]:
        return (
            Subscription(LEARNER_INDEXED, self._on_indexed),
            Subscription(LEARNER_USES, self._on_used),
            Subscription(LEARNER_TRIGGERS, self._on_trigger),
        )

    async def check_record(self) -> HealthCheck:
        """Report if the database answers and accepts writes."""
        try:
            await self.record.check_record()
        except KnowledgeUnavailableError as error:
            return HealthCheck(name="record", ready=False, detail=str(error))
        return HealthCheck(name="record", ready=True)

    async def _on_indexed(self, delivery: Delivery) -> None:
        await self.feed.record.mark_indexed(delivery.decode(index.KnowledgeIndexed).items)

    async def _on_trigger(self, delivery: Delivery) -> None:
        entity, identity = delivery.subject.split(".")[2], delivery.subject.rpartition(".")[2]
        triggers = LearningTriggers(self.learning)
        try:
            if entity == learning_jobs.LOG_PARSED.entity:
                await triggers.learn_from_log(delivery.decode(learning_jobs.LogParsed), identity)
            else:
                await triggers.learn_from_run(delivery.decode(learning_jobs.RunFinished), identity)
        except UnfitError as error:
            raise PermanentError(str(error)) from error

    async def _on_used(self, delivery: Delivery) -> None:
        await self.usage.record.count_uses(delivery.decode(usage.KnowledgeUsed))
