"""The vector store goes and comes back; the model does not load. Searches say so, installs are not lost."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skills import GET_SKILL, GET_STATUS, UNINSTALL_SKILL, IndexerStatus, SkillSelector
from skillbus.contracts.message import Empty
from skillbus.contracts.retriever import HEALTH
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors.datasets import TOOLS

from ...models import OnlyModel, embedder_in
from .conftest import BrokenModel, FailingStore, Running, TopicModel


async def _status(running: Running) -> IndexerStatus:
    return await running.bus.caller.call(GET_STATUS, Empty())


@pytest.mark.spec("skill-vector-retrieval.md § LanceDB连接失败")
async def test_a_search_without_its_store_is_an_error_and_never_an_empty_list(running: Running) -> None:
    """skill-vector-retrieval.md § LanceDB连接失败"""
    await running.install("player", "Plays a song.")
    running.store.down = True
    with pytest.raises(RequestError) as caught:
        await running.search("music")
    assert caught.value.code == ErrorCode.VECTOR_STORE_UNAVAILABLE
    assert "Qdrant connection failed" in caught.value.message
    assert caught.value.retryable
    health = await running.bus.caller.call(HEALTH, Empty())
    assert not health.ready
    running.store.down = False
    assert await running.found("music") == ["player"]


async def test_a_skill_installed_without_the_store_is_indexed_by_itself_once_it_is_back(running: Running) -> None:
    running.store.down = True
    installed = await running.install("player", "Plays a song.")
    assert (installed.outcome, installed.skill.indexed) == ("installed", False)
    status = await _status(running)
    assert (status.skills, status.waiting, status.points) == (1, 1, None)
    running.store.down = False
    await eventually(lambda: running.found("music"), lambda names: names == ["player"])
    await eventually(lambda: _status(running), lambda it: (it.waiting, it.points) == (0, 1))
    assert (await running.bus.caller.call(GET_SKILL, SkillSelector(name="player"))).indexed


async def test_a_skill_uninstalled_without_the_store_leaves_no_ghost_once_it_is_back(running: Running) -> None:
    await running.install("player", "Plays a song.")
    await running.install("radio", "Plays music.")
    running.store.down = True
    await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name="player"))
    running.store.down = False
    await eventually(lambda: running.found("music"), lambda names: names == ["radio"])


async def test_a_skill_updated_without_the_store_is_found_as_it_is_now_once_it_is_back(running: Running) -> None:
    await running.install("player", "Plays a song.")
    running.store.down = True
    updated = await running.install("player", "Books a hotel room.")
    assert (updated.outcome, updated.skill.indexed) == ("updated", False)
    running.store.down = False

    async def described() -> str:
        return (await running.search("hotel", threshold=0)).results[0].description

    await eventually(described, lambda text: text == "Books a hotel room.")


@pytest.mark.parametrize("gone", ["player", "nothing"])
async def test_a_store_that_comes_back_empty_is_filled_from_the_catalogue(running: Running, gone: str) -> None:
    await running.install("player", "Plays a song.")
    collection = await running.store.resolve_alias(TOOLS.alias)
    assert collection is not None
    await running.store.delete_collection(collection)
    if gone == "player":
        await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name="player"))
    await running.install("radio", "Plays music.")
    there = {"radio"} if gone == "player" else {"radio", "player"}
    await eventually(lambda: running.found("music"), lambda names: set(names) == there)


@asynccontextmanager
async def _with_model(
    bus: Bus, store: FailingStore, settings: IndexerSettings, model: TopicModel
) -> AsyncGenerator[Running]:
    async with (
        open_embedder(bus, embedder_in(settings.data), OnlyModel(model)),
        open_indexer(bus, settings, store),
        open_retriever(bus, RetrieverSettings(), store),
    ):
        yield Running(bus, store, settings.data)


@pytest.mark.spec("skill-vector-retrieval.md § 嵌入模型加载失败")
async def test_without_a_model_words_alone_find_skills_and_the_reply_says_so(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败; knowledge-base.md § 降级到TF-IDF"""
    with capture_logs() as logs:
        async with _with_model(bus, store, settings, BrokenModel()) as running:
            installed = await running.install("player", "Plays a song.")
            await running.install("forecast", "Tells whether rain comes.")
            assert installed.skill.indexed
            found = await running.search("play a song")
    assert [hit.name for hit in found.results] == ["player"]
    assert (found.degraded, found.model) == ("lexical", None)
    assert found.results[0].cosine is None
    assert 0 < found.results[0].score <= 1
    assert [reason.side for reason in found.results[0].reasons] == ["lexical"]
    warned = [log for log in logs if log["event"] == "embedding_model_unavailable"]
    assert [log["log_level"] for log in warned] == ["warning"]


async def test_with_its_model_gone_an_index_of_vectors_is_searched_by_words(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败"""
    async with _with_model(bus, store, settings, TopicModel()) as running:
        await running.install("player", "Plays a song.")
    async with _with_model(bus, store, settings, BrokenModel()) as running:
        await running.install("singer", "Sings a song.")
        found = await running.search("a song")
        assert {hit.name for hit in found.results} == {"player", "singer"}
        assert found.degraded == "lexical"
    async with _with_model(bus, store, settings, TopicModel()) as running:
        await eventually(lambda: running.found("music"), lambda names: set(names) == {"player", "singer"})
        assert (await running.search("music")).degraded is None


async def test_a_skill_installed_without_a_model_gets_its_vector_when_the_model_is_there(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败"""
    async with _with_model(bus, store, settings, BrokenModel()) as running:
        await running.install("player", "Plays a song.")
        assert await running.found("music") == []
    async with _with_model(bus, store, settings, TopicModel()) as running:
        await eventually(lambda: running.found("music"), lambda names: names == ["player"])
        assert (await running.search("music")).degraded is None


async def test_a_model_that_comes_late_is_used_without_a_restart_of_the_indexer(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    async with open_indexer(bus, settings, store), open_retriever(bus, RetrieverSettings(), store):
        running = Running(bus, store, settings.data)
        async with open_embedder(bus, embedder_in(settings.data), OnlyModel(BrokenModel())):
            await running.install("player", "Plays a song.")
        async with open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())):
            await running.install("radio", "Plays tunes, no words of the query.")
            await eventually(lambda: running.found("播放", limit=1), lambda names: names == ["player"])


async def test_without_an_embedder_a_search_is_refused_and_an_install_is_kept(
    bus: Bus, store: FailingStore, settings: IndexerSettings
) -> None:
    async with open_indexer(bus, settings, store), open_retriever(bus, RetrieverSettings(), store):
        running = Running(bus, store, settings.data)
        async with open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())):
            await running.install("player", "Plays a song.")
        assert not (await running.install("radio", "Plays music.")).skill.indexed
        with pytest.raises(RequestError) as caught:
            await running.search("music")
        assert caught.value.code == ErrorCode.UNAVAILABLE
        async with open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())):
            await eventually(lambda: running.found("music"), lambda names: set(names) == {"player", "radio"})
