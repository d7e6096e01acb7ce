"""The retriever's composition root."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever import tool_search as contract
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT, SEARCH_KNOWLEDGE
from skillbus.retriever.adapters.bus_embedder import BusEmbedder
from skillbus.retriever.adapters.bus_items import BusItems
from skillbus.retriever.adapters.bus_record import BusRecord
from skillbus.retriever.adapters.bus_usage import BusUsage
from skillbus.retriever.adapters.query_cache import QueryCache
from skillbus.retriever.adapters.template_built_in import JinjaTemplates
from skillbus.retriever.adapters.tokenizers import TokenizerFiles
from skillbus.retriever.adapters.vector_knowledge import VectorKnowledge
from skillbus.retriever.adapters.vector_tools import VectorTools
from skillbus.retriever.domain.context.builder import ContextBuilder
from skillbus.retriever.domain.knowledge.candidates import KnowledgeCandidates
from skillbus.retriever.domain.knowledge.search import KnowledgeLimits, KnowledgeSearch
from skillbus.retriever.domain.query import QueryEmbedder
from skillbus.retriever.domain.tools.search import ToolSearch
from skillbus.retriever.errors_on_the_wire import to_wire
from skillbus.retriever.service import RetrieverHandlers
from skillbus.retriever.settings import RetrieverSettings
from skillbus.vectors import VectorSearch


@asynccontextmanager
async def open_retriever(bus: Bus, settings: RetrieverSettings, store: VectorSearch) -> AsyncGenerator[ServiceHealth]:
    """The retriever on the bus. `store` is the caller's to close."""
    embedder = QueryCache(BusEmbedder(bus.caller), settings.cached_queries)
    search = ToolSearch(embedder, VectorTools(store), settings.candidates, settings.fits)
    knowledge = _knowledge_search(bus, settings, store, embedder)
    usage = BusUsage(bus, settings.waiting_uses, settings.gather_uses_s)
    contexts = ContextBuilder(
        knowledge, usage, TokenizerFiles(settings.tokenizer_folder()), JinjaTemplates(), settings.contexts_at_once
    )
    handlers = RetrieverHandlers(search, knowledge, usage, contexts, store)
    health = ServiceHealth(SERVICE, (handlers.store_reachable,))
    routes = [
        route(contract.SEARCH_TOOLS, handlers.search_tools, permits=settings.permits),
        route(SEARCH_KNOWLEDGE, handlers.search_knowledge, permits=settings.permits),
        route(BUILD_CONTEXT, handlers.build_context, permits=settings.permits),
    ]
    # Before the first request: a replica that just started may take seconds to reach the store, where the others need
    # none. One that cannot be reached is no reason to wait longer: searches are refused, and say why.
    await store.health()
    async with usage.running(), serve_routes(bus, SERVICE, routes, health, to_wire):
        yield health


def _knowledge_search(
    bus: Bus, settings: RetrieverSettings, store: VectorSearch, embedder: QueryEmbedder
) -> KnowledgeSearch:
    items = BusItems(bus.caller, settings.cached_items)
    candidates = KnowledgeCandidates(embedder, VectorKnowledge(store), BusRecord(bus.caller), items)
    return KnowledgeSearch(candidates, KnowledgeLimits(settings.knowledge_candidates, settings.knowledge_fits))
