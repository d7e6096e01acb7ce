"""The retriever's composition root."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.chat.agent_chat import AgentChat
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever import tool_search as contract
from skillbus.contracts.retriever.command_resolution import PARSE_QUERY, RESOLVE_COMMAND, SEARCH_COMMANDS
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT, SEARCH_KNOWLEDGE
from skillbus.contracts.retriever.nearest_knowledge import FIND_NEAREST_KNOWLEDGE
from skillbus.retriever.adapters.bus_chat_models import BusChatModels
from skillbus.retriever.adapters.bus_dialogues import BusDialogues
from skillbus.retriever.adapters.bus_embedder import BusEmbedder, QueryCache
from skillbus.retriever.adapters.bus_homes import BusHomes
from skillbus.retriever.adapters.bus_record import BusRecord
from skillbus.retriever.adapters.bus_usage import BusUsage
from skillbus.retriever.adapters.tokenizers import TokenizerFiles
from skillbus.retriever.adapters.vector_commands import VectorCommands
from skillbus.retriever.adapters.vector_devices import VectorDevices
from skillbus.retriever.adapters.vector_knowledge import VectorKnowledge
from skillbus.retriever.adapters.vector_tools import VectorTools
from skillbus.retriever.domain.commands.search import CommandSearch
from skillbus.retriever.domain.context.builder import ContextBuilder
from skillbus.retriever.domain.knowledge.nearest import NearestKnowledge
from skillbus.retriever.domain.knowledge.search import KnowledgeLimits, KnowledgeSearch
from skillbus.retriever.domain.resolution.model.parser import ModelParser, ModelParserSettings
from skillbus.retriever.domain.resolution.resolver import CommandResolver
from skillbus.retriever.domain.tools.search import ToolSearch
from skillbus.retriever.errors_on_the_wire import to_wire
from skillbus.retriever.service import RetrieverHandlers
from skillbus.retriever.settings import RetrieverSettings
from skillbus.vectors import VectorSearch


@asynccontextmanager
async def open_retriever(bus: Bus, settings: RetrieverSettings, store: VectorSearch) -> AsyncGenerator[ServiceHealth]:
    """Serve the retriever on the bus while the context is open. The caller closes `store`."""
    embedder = QueryCache(BusEmbedder(bus.caller), settings.cached_queries)
    search = ToolSearch(embedder, VectorTools(store), settings.candidates, settings.fits)
    limits = KnowledgeLimits(settings.knowledge_candidates, settings.knowledge_fits)
    index = VectorKnowledge(store)
    knowledge = KnowledgeSearch(embedder, index, BusRecord(bus.caller), limits)
    nearest = NearestKnowledge(embedder, index)
    commands = CommandSearch(embedder, VectorCommands(store), settings.candidates)
    usage = BusUsage(bus, settings.waiting_uses, settings.gather_uses_s)
    contexts = ContextBuilder(knowledge, usage, TokenizerFiles(settings.tokenizer_folder()), settings.contexts_at_once)
    resolver = CommandResolver(
        BusHomes(bus.caller, settings.cached_devices),
        BusDialogues(bus),
        _build_parser(bus, settings),
        commands,
        VectorDevices(store, embedder),
    )
    handlers = RetrieverHandlers(knowledge, usage, store)
    health = ServiceHealth(SERVICE, (handlers.check_store,))
    routes = [
        route(contract.SEARCH_TOOLS, search.search_tools, permits=settings.permits, adapts=True),
        route(SEARCH_COMMANDS, commands.search_commands, permits=settings.permits, adapts=True),
        route(SEARCH_KNOWLEDGE, handlers.search_knowledge, permits=settings.permits, adapts=True),
        route(BUILD_CONTEXT, contexts.build_context, permits=settings.permits),
        route(FIND_NEAREST_KNOWLEDGE, nearest.find_nearest, permits=4),
        route(PARSE_QUERY, resolver.parse_query, permits=settings.permits),
        route(RESOLVE_COMMAND, resolver.resolve_command, permits=settings.permits),
    ]
    # Connect before the first request: a replica that just started may take seconds to reach the store. If it cannot be
    # reached, start all the same: searches are refused with the reason.
    await store.health()
    async with usage.running(), serve_routes(bus, SERVICE, routes, health, to_wire):
        yield health


def _build_parser(bus: Bus, settings: RetrieverSettings) -> ModelParser:
    chat = AgentChat(bus.caller, settings.parser_timeout_s)
    chosen = ModelParserSettings(
        settings.parser_model, settings.parser_threshold, settings.parser_timeout_s, settings.parser_answers
    )
    return ModelParser(chat, BusChatModels(bus.caller), chosen)
