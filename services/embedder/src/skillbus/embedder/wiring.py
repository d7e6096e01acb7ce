"""Composition root of the embedder."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.runner import StartError
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.embedder import embedding as contract
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.http.model import HttpModel, build_http_spec
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings
from skillbus.embedder.adapters.registry_changes import RegistryAnnouncer, open_registry_watch
from skillbus.embedder.adapters.sql.registry_store import open_registry_store
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.inference.batcher import VectorCache
from skillbus.embedder.domain.inference.model_pool import ModelPool
from skillbus.embedder.domain.model import AsyncModel, ModelFactory, ModelSpec
from skillbus.embedder.domain.registry.errors import RegistryUnavailableError
from skillbus.embedder.domain.registry.registry import Registry
from skillbus.embedder.errors_on_the_wire import to_wire
from skillbus.embedder.service import EmbedderHandlers, RegistryHandlers
from skillbus.embedder.settings import EmbedderSettings
from skillbus.providers.client import ProviderClients
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import translate_han


@dataclass(frozen=True, slots=True)
class ProviderModels:
    """Implementation of `ModelFactory` for every kind of provider."""

    clients: ProviderClients
    local: LocalModels

    def build_spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        """See `ModelFactory.build_spec`."""
        is_local = provider.kind is ProviderKind.LOCAL
        spec = self.local.build_spec(provider, model) if is_local else build_http_spec(provider, model)
        return spec if spec.dim else None

    def build_model(self, provider: ProviderRecord, model: ModelRecord) -> AsyncModel:
        """See `ModelFactory.build_model`."""
        if provider.kind is ProviderKind.LOCAL:
            return self.local.build_model(provider, model)
        return HttpModel(provider, model, self.clients)


@asynccontextmanager
async def open_embedder(
    bus: Bus, settings: EmbedderSettings, models: ModelFactory | None = None
) -> AsyncGenerator[ServiceHealth]:
    """Serve the embedder on the bus. The default model loads in the background.

    `models` replaces the real model factory in tests. Raises StartError if the registry's database cannot be opened.
    """
    async with AsyncExitStack() as stack:
        factory = models or await _open_models(stack, settings)
        # A second set of connections: otherwise an open breaker would answer for a provider under test.
        probed = models or await _open_models(stack, settings)
        registry = await _open_registry(stack, bus, settings, probed)
        pool = ModelPool(
            lambda one: factory.build_model(one.provider, one.model), VectorCache(), queued=settings.queue_texts
        )
        lexical = LexicalEncoder(translate=translate_han)
        embedding = EmbeddingService(registry.load_snapshot, await stack.enter_async_context(pool), lexical)
        await embedding.check_default()  # starts to open it
        handlers = EmbedderHandlers(embedding, settings.load_wait_s)
        routes = [
            route(contract.EMBED_TEXTS, handlers.embed_texts),
            *RegistryHandlers(registry, probed).list_routes(),
        ]
        health = ServiceHealth(SERVICE, (handlers.check_model,))
        await stack.enter_async_context(serve_routes(bus, SERVICE, routes, health, to_wire))
        yield health


async def _open_models(stack: AsyncExitStack, settings: EmbedderSettings) -> ProviderModels:
    clients = await stack.enter_async_context(ProviderClients(settings.build_secrets(), settings.address_rule))
    local = LocalSettings(settings.data / "models", threads=settings.model_threads, slots=settings.slots)
    return ProviderModels(clients, LocalModels(local))


async def _open_registry(
    stack: AsyncExitStack, bus: Bus, settings: EmbedderSettings, factory: ModelFactory
) -> Registry:
    try:
        await asyncio.to_thread(settings.data.mkdir, parents=True, exist_ok=True)
        store = await stack.enter_async_context(open_registry_store(settings.build_registry_url()))
        watch = await stack.enter_async_context(open_registry_watch(bus))
        registry = Registry(store, factory, RegistryAnnouncer(bus), watch)
        await registry.ensure_default()
    except (RegistryUnavailableError, OSError) as error:
        raise StartError(f"the registry of providers and models cannot be opened: {error}") from error
    return registry
