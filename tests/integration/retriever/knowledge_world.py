"""The retriever and the embedder on a real bus, a real vector store, and a record in memory in the learner's place."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.msg import Msg

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus, confirm_subscriptions
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.index import FIND_KNOWLEDGE, FindKnowledge, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.usage import KNOWLEDGE_USED, AnsweredRequest, KnowledgeUsed
from skillbus.contracts.message import MSGPACK
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, KnowledgeFound, SearchKnowledge
from skillbus.relevance.knowledge_text import (
    MEAN_TERMS,
    build_item_aside_text,
    build_item_dense_texts,
    build_item_lexical_text,
)
from skillbus.vectors import CollectionSpec, models
from skillbus.vectors.datasets import KNOWLEDGE, NO_MODEL
from skillbus.vectors.mean_direction import compute_mean_direction

from ...knowledge_record import Record, point_of
from .conftest import FailingStore, TopicModel

SPEC = TopicModel.spec
KEYWORDS = ("type", "tags", "source", "scope_fixed", "scope_above")


@dataclass
class KnowledgeWorld:
    """A knowledge base whose record and index a test writes as it likes."""

    bus: Bus
    store: FailingStore
    record: Record = field(default_factory=Record)
    facts: list[KnowledgeUsed] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    broken: RequestError | None = None
    """What the record answers instead."""

    async def write(self, *items: KnowledgeItem) -> None:
        """Items that record and index have."""
        self.record.put(*items)
        await self.index(*items)

    async def index(
        self, *items: KnowledgeItem, fingerprint: str = SPEC.fingerprint, by_words_only: bool = False
    ) -> None:
        """Points of items, whatever the record says of them."""
        collection = KNOWLEDGE.name_collection(fingerprint)
        await self.store.ensure_collection(
            collection, CollectionSpec(dim=SPEC.dim, keywords=KEYWORDS, numbers=("valid_from", "valid_to"))
        )
        await self.store.switch_aliases({KNOWLEDGE.alias: collection})
        dense = not by_words_only and fingerprint != NO_MODEL
        for at in range(0, len(items), 50):
            some = items[at : at + 50]
            vectors = await self._embed_words(some)
            rows = [_embed_item(one) if dense else None for one in some]
            await self.store.upsert(collection, [point_of(*each) for each in zip(some, vectors, rows, strict=True)])

    async def _embed_words(self, items: Sequence[KnowledgeItem]) -> list[models.SparseValues]:
        """Sparse vectors of items, as the indexer asks for them."""
        asked = EmbedTexts(
            texts=tuple(build_item_lexical_text(one.title, one.content, one.tags) for one in items),
            asides=tuple(build_item_aside_text(one.scope) for one in items),
            role=TextRole.DOCUMENT,
            dense=False,
            sparse=True,
            mean_terms=MEAN_TERMS,
        )
        embedded = await self.bus.caller.call(EMBED_TEXTS, asked, content_type=MSGPACK)
        return [models.SparseValues(indices=[*one.indices], values=[*one.values]) for one in embedded.sparse or ()]

    async def search(self, query: str, **more: object) -> KnowledgeFound:
        request = SearchKnowledge.model_validate({"query": query, **more})
        return await self.bus.caller.call(SEARCH_KNOWLEDGE, request)

    async def found(self, query: str, **more: object) -> list[str]:
        """Titles, in their order; of all that is near, whether it fits or not."""
        return [hit.item.title for hit in (await self.search(query, **{"threshold": 0.0, **more})).results]

    @property
    def used(self) -> list[AnsweredRequest]:
        """All that the stream was told."""
        return [answered for fact in self.facts for answered in fact.requests]

    async def told(self, count: int) -> list[AnsweredRequest]:
        """The first answers that the stream was told of, as soon as there are so many."""
        async with asyncio.timeout(5):
            while len(self.used) < count:
                self.heard.clear()
                await self.heard.wait()
        return self.used[:count]

    async def find_knowledge(self, asked: FindKnowledge) -> KnowledgeMatched:
        if self.broken is not None:
            raise self.broken
        return self.record.find(asked)

    async def hear(self, message: Msg) -> None:
        self.facts.append(decode(KnowledgeUsed, message.data))
        self.heard.set()


def _embed_item(one: KnowledgeItem) -> list[float]:
    rows = TopicModel().embed(build_item_dense_texts(one.title, one.content), TextRole.DOCUMENT)
    vector: list[float] = compute_mean_direction(rows).tolist()
    return vector


@asynccontextmanager
async def learner(world: KnowledgeWorld) -> AsyncGenerator[None]:
    """The record on the bus."""
    routes = [route(FIND_KNOWLEDGE, world.find_knowledge)]
    async with serve_routes(world.bus, "learner", routes, ServiceHealth("learner"), lambda _: None):
        yield


@asynccontextmanager
async def listening(world: KnowledgeWorld) -> AsyncGenerator[None]:
    """What is told of uses is heard."""
    subscription = await world.bus.client.subscribe(KNOWLEDGE_USED.pattern, cb=world.hear)
    await confirm_subscriptions(world.bus.client)
    try:
        yield
    finally:
        await subscription.unsubscribe()
