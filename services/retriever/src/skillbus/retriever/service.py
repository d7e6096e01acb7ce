"""The retriever's handlers. `ToolSearch` and `ContextBuilder` answer their requests directly."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.learner.usage import AnsweredRequest
from skillbus.contracts.retriever.knowledge_search import KnowledgeFound, SearchKnowledge
from skillbus.retriever.domain.explanation import StageTimer
from skillbus.retriever.domain.knowledge.hit import fit_reply
from skillbus.retriever.domain.knowledge.ports import KnowledgeFinder
from skillbus.retriever.domain.usage import UsageLog, list_uses
from skillbus.vectors import VectorSearch


@dataclass(frozen=True, slots=True)
class RetrieverHandlers:
    knowledge: KnowledgeFinder
    usage: UsageLog
    store: VectorSearch

    async def search_knowledge(self, request: SearchKnowledge) -> KnowledgeFound:
        timer, request_id = StageTimer(), uuid4().hex
        found = await self.knowledge.search_knowledge(request)
        if request.record_use:
            answered = AnsweredRequest(
                request_id=request_id,
                scene=request.scene,
                query=request.query,
                at=datetime.now(UTC),
                uses=list_uses(hit.item for hit in found.hits),
            )
            self.usage.note(request.project, answered)
        return KnowledgeFound(
            results=fit_reply(found.hits),
            request_id=request_id,
            degraded="lexical" if found.degraded else None,
            model=found.model,
            index_behind=found.index_behind,
            explanation=found.explanation,
            took_ms=timer.measure_ms(),
        )

    async def check_store(self) -> HealthCheck:
        health = await self.store.health()
        return HealthCheck(name="vector_store", ready=health.ready, detail="; ".join((health.engine, *health.notices)))
