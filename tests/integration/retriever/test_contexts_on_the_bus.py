"""Contexts over the bus, with the real store and embedder, and a record in memory."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT, BuildContext, ContextBuilt
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

from ...knowledge_record import id_of, item
from .conftest import FailingStore
from .knowledge_world import KnowledgeWorld, learner, listening

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared_bus: Bus, tmp_path: Path) -> AsyncGenerator[KnowledgeWorld]:
    tokenizers = tmp_path / "tokenizers"
    tokenizers.mkdir()
    _save_words(tokenizers / "words.json")
    settings = RetrieverSettings(data=tmp_path, gather_uses_s=0.05)
    async with open_vector_store(None, tmp_path / "vectors") as opened:
        store = FailingStore(opened)
        made = KnowledgeWorld(shared_bus, store)
        async with learner(made), listening(made), open_retriever(shared_bus, settings, store):
            yield made


def _save_words(path: Path) -> None:
    """A tokenizer of words and signs."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(path))


async def built(world: KnowledgeWorld, **more: object) -> ContextBuilt:
    request = BuildContext.model_validate({"query": "song", "threshold": 0.0, **more})
    return await world.bus.caller.call(BUILD_CONTEXT, request)


@pytest.mark.spec("knowledge-base.md § 记录使用情况")
async def test_a_context_for_tests_holds_what_fits_by_priority_within_its_budget(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 构建测试生成上下文"""
    await world.write(
        item(1, "播放歌曲的接口需要 header game-id", scope="/api/live/*", priority=9),
        item(2, "A song has a title and a singer", type="module_context"),
        item(3, "Song lists are read page by page", priority=10),
        item(4, "Songs of the shop are not free", scope="/api/shop/*"),
        item(5, "Old songs", status=KnowledgeStatus.ARCHIVED),
    )
    context = await built(world, scope="/api/live/rooms", budget_tokens=750)
    assert [placed.id for placed in context.items] == [id_of(3), id_of(1), id_of(2)]
    head = (
        f"[K-{id_of(1)} v1] 播放歌曲的接口需要 header game-id\ntype: business_rule · 业务规则\nscope: /api/live/*\n> "
    )
    assert head in context.text
    assert len(context.text.encode()) < context.tokens <= 750
    assert context.counted_by == "upper_bound"
    (used,) = await world.told(1)
    assert (used.request_id, used.applied, used.scene) == (context.request_id, True, "chat")
    assert [use.id for use in used.uses] == [id_of(3), id_of(1), id_of(2)]


async def test_two_hundred_candidates_fill_a_budget_and_the_rest_is_counted(world: KnowledgeWorld) -> None:
    await world.write(*(item(n, f"song {n}", content=f"song {n}: {n**9:x} {n**7:x}") for n in range(250)))
    context = await built(world, candidates=200, budget_tokens=4_000)
    assert 3_800 < context.tokens <= 4_000
    assert len(context.items) + context.omitted.over_budget + context.omitted.alike == 200
    assert context.text.endswith(f"omitted: {200 - len(context.items)}")


async def test_tokens_are_counted_by_the_tokenizer_that_is_named(world: KnowledgeWorld) -> None:
    await world.write(*(item(n, f"song {n}", content=f"song {n} {n**9} {n**7}") for n in range(30)))
    context = await built(world, tokenizer="words", budget_tokens=200)
    assert (context.counted_by, context.items != ()) == ("words", True)
    assert context.tokens <= 200 < len(context.text.encode())
    with pytest.raises(RequestError, match="there are words") as refused:
        await built(world, tokenizer="unknown")
    assert refused.value.code is ErrorCode.NOT_FOUND


@pytest.mark.parametrize("budget", [0, 10**9])
async def test_budgets_beyond_the_contract_are_refused(world: KnowledgeWorld, budget: int) -> None:
    beyond = BuildContext(query="song").model_copy(update={"budget_tokens": budget})
    with pytest.raises(RequestError, match="budget_tokens") as refused:
        await world.bus.caller.call(BUILD_CONTEXT, beyond)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


async def test_the_largest_context_fits_a_message(world: KnowledgeWorld) -> None:
    for number in range(20):
        await world.write(item(number, f"song {number}", content="\x01song" + chr(0x4E00 + number) * 31_990))
    world.record.page = 5
    context = await built(world, candidates=200, budget_tokens=1_000_000)
    assert 0 < len(context.items) < 20
    assert context.omitted.over_budget == 20 - len(context.items)


async def test_without_the_record_there_is_no_context(world: KnowledgeWorld) -> None:
    await world.write(item(1, "song"))
    world.broken = RequestError(ErrorCode.UNAVAILABLE, "nobody answers")
    with pytest.raises(RequestError) as refused:
        await built(world)
    assert refused.value.code is ErrorCode.UNAVAILABLE
    world.broken, world.store.down = None, True
    with pytest.raises(RequestError) as refused:
        await built(world)
    assert refused.value.code is ErrorCode.VECTOR_STORE_UNAVAILABLE
