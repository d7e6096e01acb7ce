"""The embedder's composition root."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.health import ServiceHealth
from skillbus.common.serving import serve
from skillbus.contracts import embedder as contract
from skillbus.embedder.adapters.use_model import UseModel
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.lanes import LaneLimits
from skillbus.embedder.domain.lexical import LexicalEncoder
from skillbus.embedder.domain.model import DenseModel
from skillbus.embedder.errors_on_the_wire import to_wire
from skillbus.embedder.service import EmbedderHandlers
from skillbus.embedder.settings import EmbedderSettings


@asynccontextmanager
async def open_embedder(
    bus: Bus, settings: EmbedderSettings, model: DenseModel | None = None
) -> AsyncGenerator[ServiceHealth]:
    """The embedder on the bus. Its model is loaded in a thread meanwhile; `model` is another one than the default."""
    dense = model or UseModel(threads=settings.model_threads)
    spec = dense.spec
    limits = LaneLimits(spec.batch_tokens, padded=spec.padded, queued=settings.queue_texts)
    async with EmbeddingService(dense, limits, LexicalEncoder(), slots=settings.slots) as embedding:
        handlers = EmbedderHandlers(embedding, settings.load_wait_s)
        health = ServiceHealth(contract.SERVICE, (handlers.model_loaded,))
        async with serve(bus, contract.SERVICE, [route(contract.EMBED_TEXTS, handlers.embed_texts)], health, to_wire):
            yield health
