"""The embedder's composition root."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.health import ServiceHealth
from skillbus.common.runner import StartError
from skillbus.common.serving import serve
from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.embedder import embedding as contract
from skillbus.embedder.adapters.announcer import BusAnnouncer
from skillbus.embedder.adapters.http.providers import HttpProviders
from skillbus.embedder.adapters.lexicon import load_lexicon
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings
from skillbus.embedder.adapters.model_factory import Models
from skillbus.embedder.adapters.registry_requests import RegistryHandlers
from skillbus.embedder.adapters.registry_watch import open_registry_watch
from skillbus.embedder.adapters.secrets import Secrets
from skillbus.embedder.adapters.sql.registry_store import open_registry_store
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.lexical import LexicalEncoder
from skillbus.embedder.domain.model_factory import ModelFactory
from skillbus.embedder.domain.pool import ModelPool
from skillbus.embedder.domain.registry import Registry
from skillbus.embedder.domain.registry_errors import RegistryUnavailableError
from skillbus.embedder.domain.vector_cache import VectorCache
from skillbus.embedder.errors_on_the_wire import to_wire
from skillbus.embedder.service import EmbedderHandlers
from skillbus.embedder.settings import EmbedderSettings


@asynccontextmanager
async def open_embedder(
    bus: Bus, settings: EmbedderSettings, models: ModelFactory | None = None
) -> AsyncGenerator[ServiceHealth]:
    """The embedder on the bus. Its default model is opened meanwhile; `models` makes others than those we know.

    Raises:
        StartError: the database of providers and models cannot be opened.
    """
    async with AsyncExitStack() as stack:
        factory = models or await _models(stack, settings)
        # With connections of its own: else a breaker that is open would answer for a provider that is to be tested.
        probed = models or await _models(stack, settings)
        registry = await _registry(stack, bus, settings, probed)
        pool = ModelPool(
            lambda wanted: factory.make(wanted.provider, wanted.model), VectorCache(), queued=settings.queue_texts
        )
        lexical = LexicalEncoder(translate=(await asyncio.to_thread(load_lexicon)).translate)
        embedding = EmbeddingService(registry.snapshot, await stack.enter_async_context(pool), lexical)
        await embedding.preload()
        handlers = EmbedderHandlers(embedding, settings.load_wait_s)
        routes = [
            route(contract.EMBED_TEXTS, handlers.embed_texts),
            *RegistryHandlers(registry, probed).routes(),
        ]
        health = ServiceHealth(SERVICE, (handlers.model_loaded,))
        await stack.enter_async_context(serve(bus, SERVICE, routes, health, to_wire))
        yield health


async def _models(stack: AsyncExitStack, settings: EmbedderSettings) -> Models:
    providers = await stack.enter_async_context(HttpProviders(Secrets(folder=settings.secrets_folder)))
    local = LocalSettings(settings.data / "models", threads=settings.model_threads, slots=settings.slots)
    return Models(providers, LocalModels(local))


async def _registry(stack: AsyncExitStack, bus: Bus, settings: EmbedderSettings, factory: ModelFactory) -> Registry:
    try:
        await asyncio.to_thread(settings.data.mkdir, parents=True, exist_ok=True)
        store = await stack.enter_async_context(open_registry_store(settings.registry_url()))
        watch = await stack.enter_async_context(open_registry_watch(bus))
        registry = Registry(store, factory, BusAnnouncer(bus), watch)
        await registry.ensure_default()
    except (RegistryUnavailableError, OSError) as error:
        raise StartError(f"the registry of providers and models cannot be opened: {error}") from error
    return registry
