"""Knowledge searches while a model or the learner is missing, and the end of the retriever."""

import asyncio

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors.datasets import NO_MODEL

from ...knowledge_record import id_of, item
from ...models import OnlyModel, embedder_in
from .conftest import BrokenModel, FailingStore, TopicModel
from .knowledge_world import KnowledgeWorld, learner, listening


@pytest.mark.spec("knowledge-base.md § 降级到TF-IDF")
async def test_without_a_model_words_alone_find_knowledge_and_the_reply_says_so(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    """knowledge-base.md § 降级到TF-IDF"""
    world = KnowledgeWorld(bus, store)
    async with (
        open_embedder(bus, embedder_in(settings.data), OnlyModel(BrokenModel())),
        learner(world),
        open_retriever(bus, RetrieverSettings(), store),
    ):
        world.record.put(item(1, "Every song needs a header."), item(2, "Rain comes."))
        await world.index(item(1, "Every song needs a header."), item(2, "Rain comes."), fingerprint=NO_MODEL)
        found = await world.search("a song")
    assert [hit.item.id for hit in found.results] == [id_of(1)]
    assert (found.degraded, found.model) == ("lexical", None)
    assert all(hit.cosine is None and 0 < hit.score <= 1 for hit in found.results)
    assert [reason.side for hit in found.results for reason in hit.reasons] == ["lexical"]


async def test_without_a_learner_nothing_is_shown_that_nobody_vouches_for(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    world = KnowledgeWorld(bus, store)
    async with (
        open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())),
        open_retriever(bus, RetrieverSettings(), store),
    ):
        await world.write(item(1, "song"))
        with pytest.raises(RequestError) as caught:
            await world.search("song")
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert caught.value.retryable


async def test_uses_are_told_before_the_retriever_is_gone(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    world = KnowledgeWorld(bus, store)
    async with (
        open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())),
        learner(world),
        listening(world),
    ):
        async with open_retriever(bus, RetrieverSettings(gather_uses_s=60), store):
            found = await asyncio.gather(*(world.search(f"song {n}") for n in range(20)))
        told = await world.told(20)
    assert {used.request_id for used in told} == {reply.request_id for reply in found}
    assert len(world.facts) == 1
