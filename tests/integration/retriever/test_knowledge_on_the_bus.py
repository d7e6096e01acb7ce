"""Searches of the knowledge base over the bus, with the real store and embedder, and a record in memory."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.retriever.nearest_knowledge import FIND_NEAREST_KNOWLEDGE, FindNearestKnowledge, NearestText
from skillbus.contracts.scope import ScopeMatch
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

from ...knowledge_record import NOW, id_of, item
from .conftest import FailingStore
from .knowledge_world import KnowledgeWorld, learner, listening

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared_bus: Bus, tmp_path: Path) -> AsyncGenerator[KnowledgeWorld]:
    async with open_vector_store(None, tmp_path / "vectors") as opened:
        store = FailingStore(opened)
        made = KnowledgeWorld(shared_bus, store)
        async with (
            learner(made),
            listening(made),
            open_retriever(shared_bus, RetrieverSettings(gather_uses_s=0.05), store),
        ):
            yield made


async def test_what_is_meant_is_found_in_other_words_best_first(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 语义检索相关知识"""
    await world.write(
        item(1, "Every song needs the header game-id.", type="business_rule"),
        item(2, "Rain is told by the hour."),
        item(3, "A song is a file that is read."),
    )
    found = await world.search("播放", threshold=0.0)
    assert [hit.item.id for hit in found.results] == [id_of(1), id_of(3), id_of(2)]
    scores = [hit.score for hit in found.results]
    assert scores == sorted(scores, reverse=True)
    assert found.results[0].item.type == "business_rule"
    assert "game-id" in found.results[0].item.content
    assert found.degraded is None
    assert found.model


@pytest.mark.spec("knowledge-base.md § 指定范围检索")
async def test_with_a_scope_what_matches_it_comes_first_then_what_is_general_and_nothing_of_others(
    world: KnowledgeWorld,
) -> None:
    """knowledge-base.md § 指定范围检索"""
    scopes = {1: "", 2: "/api/live/*", 3: "/api/live/rooms", 4: "/api/*", 5: "/api/shop/*", 6: "module:live", 7: "/api"}
    await world.write(*(item(n, f"song {n}", scope=scope) for n, scope in scopes.items()))
    found = (await world.search("song", scope="/api/live/*", top_k=10)).results
    assert [(hit.item.id, hit.scope_match) for hit in found] == [
        (id_of(2), ScopeMatch.EXACT),
        (id_of(3), ScopeMatch.WITHIN),
        (id_of(4), ScopeMatch.PATTERN),
        (id_of(7), ScopeMatch.PARENT),
        (id_of(1), ScopeMatch.GENERAL),
    ]
    assert len(await world.found("song", top_k=10)) == 7
    assert await world.found("song", scope="") == ["song 1"]


@pytest.mark.spec("knowledge-base.md § 指定范围检索")
async def test_many_nearer_general_items_do_not_crowd_out_those_of_the_scope(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 指定范围检索"""
    await world.write(
        *(item(n, f"song {n}") for n in range(60)),
        item(60, "hotel file", scope="/api/live/rooms"),
        item(61, "hotel weather", scope="/api/*"),
    )
    found = (await world.search("song", scope="/api/live/rooms", threshold=0.0)).results
    assert [hit.item.id for hit in found[:2]] == [id_of(60), id_of(61)]
    assert found[2].score > found[0].score


@pytest.mark.spec("knowledge-base.md § 限制返回数量")
async def test_no_more_come_back_than_are_asked_for(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 限制返回数量"""
    await world.write(*(item(n, f"song {n}") for n in range(30)))
    assert len(await world.found("song", top_k=5)) == 5
    assert len(await world.found("song", top_k=30)) == 30


@pytest.mark.spec("knowledge-base.md § 按类型筛选知识")
@pytest.mark.spec("knowledge-base.md § 按标签筛选知识")
@pytest.mark.spec("knowledge-base.md § 组合条件筛选")
async def test_types_tags_and_sources_filter_and_hold_together(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 按类型筛选知识, § 按标签筛选知识, § 组合条件筛选"""
    await world.write(
        item(1, "song a", type="project_config", tags=["auth"]),
        item(2, "song b", type="project_config", tags=["game-id"], source="log_learning"),
        item(3, "song c", type="business_rule", tags=["auth", "game-id"]),
        item(4, "song d", type="business_rule"),
    )
    asked = {"either": {"tags": ["auth", "game-id"]}, "both": {"all_tags": ["auth", "game-id"]}}
    assert sorted(await world.found("song", types=["project_config"])) == ["song a", "song b"]
    assert sorted(await world.found("song", **asked["either"])) == ["song a", "song b", "song c"]
    assert await world.found("song", **asked["both"]) == ["song c"]
    assert sorted(await world.found("song", types=["project_config"], **asked["either"])) == ["song a", "song b"]
    assert await world.found("song", sources=["log_learning"]) == ["song b"]


async def test_what_the_index_still_has_and_the_record_does_not_show_is_never_found(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 删除知识条目"""
    archived, pending = item(1, "song 1"), item(2, "song 2")
    await world.write(archived, pending, item(3, "song 3"))
    world.record.put(
        archived.model_copy(update={"status": KnowledgeStatus.ARCHIVED, "version": 2}),
        pending.model_copy(update={"status": KnowledgeStatus.PENDING}),
    )
    await world.index(item(9, "song 9"))  # the record never heard of it
    found = await world.search("song", explain=True)
    assert [hit.item.id for hit in found.results] == [id_of(3)]
    assert found.explanation is not None
    assert found.explanation.not_shown == 3


async def test_an_item_is_only_found_while_it_is_valid(world: KnowledgeWorld) -> None:
    await world.write(item(1, "song", valid_from=NOW, valid_to=NOW + timedelta(days=1)))
    for days, found in ((-1, []), (0, ["song"]), (0.5, ["song"]), (1, [])):
        assert await world.found("song", at=(NOW + timedelta(days=days)).isoformat()) == found


async def test_an_item_is_found_once_it_is_indexed_and_until_then_the_reply_says_that_the_index_is_behind(
    world: KnowledgeWorld,
) -> None:
    """knowledge-base.md § 手动创建知识条目"""
    await world.write(*(item(n, f"rain {n}") for n in range(2, 30)))
    world.record.put(item(1, "Every song needs a header."), indexed=False)
    before = await world.search("song header", threshold=0.0)
    assert id_of(1) not in {hit.item.id for hit in before.results}
    assert before.index_behind == 1
    await world.write(item(1, "Every song needs a header."))
    after = await world.search("song header")
    assert (after.results[0].item.id, after.results[0].indexed, after.index_behind) == (id_of(1), True, 0)
    assert [reason.side for reason in after.results[0].reasons] == ["dense", "lexical"]


async def test_a_changed_item_shows_its_new_text_at_once_and_is_found_by_it_once_it_is_indexed(
    world: KnowledgeWorld,
) -> None:
    """knowledge-base.md § 更新知识条目"""
    await world.write(item(1, "song"), *(item(n, "hotel room") for n in range(2, 40)))
    changed = item(1, "rain", version=2)
    world.record.put(changed, indexed=False)
    (best, *_) = (await world.search("播放")).results
    assert (best.item.title, best.item.version, best.indexed) == ("rain", 2, False)
    await world.write(changed)
    (best, *_) = (await world.search("天气")).results
    assert (best.item.id, best.item.version, best.indexed) == (id_of(1), 2, True)
    assert (await world.search("播放", threshold=0.5)).results == ()


async def test_a_project_sees_its_own_items_and_those_above_it(world: KnowledgeWorld) -> None:
    world.record.parents = {"team-a": "default"}
    await world.write(
        item(1, "song of all"), item(2, "song of a", project="team-a"), item(3, "song of b", project="team-b")
    )
    assert sorted(await world.found("song", project="team-a")) == ["song of a", "song of all"]
    assert await world.found("song", project="team-a", inherit=False) == ["song of a"]
    assert await world.found("song") == ["song of all"]
    assert await world.found("song", project="team-b") == ["song of b"]


async def test_what_was_indexed_while_the_model_was_away_is_found_by_its_words(world: KnowledgeWorld) -> None:
    await world.write(*(item(n, f"rain {n}") for n in range(2, 10)))
    late = item(1, "Every song needs a header.")
    world.record.put(late)
    await world.index(late, by_words_only=True)
    (best, *_) = (await world.search("header", threshold=0.0)).results
    assert (best.item.id, best.indexed, best.cosine) == (id_of(1), True, None)
    assert [(reason.side, reason.parts) for reason in best.reasons] == [("lexical", ("title", "content"))]


async def test_without_its_store_a_search_is_an_error_and_never_an_empty_list(world: KnowledgeWorld) -> None:
    await world.write(item(1, "song"))
    world.store.down = True
    with pytest.raises(RequestError) as caught:
        await world.search("song")
    assert caught.value.code is ErrorCode.VECTOR_STORE_UNAVAILABLE
    world.store.down = False
    assert await world.found("song") == ["song"]


async def test_a_record_that_fails_is_an_error(world: KnowledgeWorld) -> None:
    await world.write(item(1, "song"))
    world.broken = RequestError(ErrorCode.UNAVAILABLE, "the database is locked")
    with pytest.raises(RequestError) as caught:
        await world.search("song")
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert "locked" in caught.value.message


async def test_an_empty_knowledge_base_gives_an_empty_list(world: KnowledgeWorld) -> None:
    found = await world.search("song", explain=True)
    assert (found.results, found.degraded) == ((), None)


async def test_each_use_is_told_once_with_its_places_in_the_order_of_the_searches(world: KnowledgeWorld) -> None:
    """knowledge-base.md § 记录使用情况"""
    await world.write(item(1, "song"), item(2, "song file", version=3))
    first = await world.search("song", scene="test_generation", threshold=0.0)
    await world.search("song", record_use=False)
    second = await world.search("hotel")
    told = await world.told(2)
    assert [used.request_id for used in told] == [first.request_id, second.request_id]
    assert [(use.id, use.version, use.position) for use in told[0].uses] == [(id_of(1), 1, 1), (id_of(2), 3, 2)]
    assert (told[0].scene, told[0].query, told[0].applied) == ("test_generation", "song", False)
    assert told[1].uses == ()


async def test_a_reply_of_long_items_fits_a_message_and_says_that_they_were_cut(world: KnowledgeWorld) -> None:
    world.record.page = 5
    await world.write(*(item(n, f"song {n}", content="\x01" * 20_000 + "歌") for n in range(30)))
    found = await world.search("song", top_k=30, content_characters=32_000, threshold=0.0)
    assert len(found.results) == 30
    assert all(hit.content_cut for hit in found.results)
    whole = await world.search("song", top_k=5, content_characters=32_000, threshold=0.0)
    assert [(hit.content_cut, len(hit.item.content)) for hit in whole.results] == [(False, 20_001)] * 5


@pytest.mark.spec("knowledge-base.md § 检索测试")
@pytest.mark.spec("knowledge-base.md § 三阶段检索流程")
async def test_an_explanation_tells_the_stages_what_was_kept_out_and_what_moved_each_hit(
    world: KnowledgeWorld,
) -> None:
    """knowledge-base.md § 检索测试"""
    await world.write(
        item(1, "song", scope="/api/live/*", priority=10), item(2, "song rain"), item(3, "song", scope="/api/shop")
    )
    world.record.votes[id_of(2)] = (8.0, 0.0)
    found = await world.search("song", scope="/api/live/*", explain=True)
    told = found.explanation
    assert told is not None
    assert [(stage.name, stage.candidates) for stage in told.stages] == [
        ("embed", 0),
        ("filter", 2),
        ("candidates", 2),
        ("record", 2),
        ("rank", 2),
    ]
    assert all(stage.took_ms >= 0 for stage in told.stages)
    assert (told.indexed, told.not_shown, told.projects) == (3, 0, ("default",))
    assert told.best_score == found.results[0].score
    factors = {hit.item.id: hit.factors for hit in found.results}
    first, voted = factors[id_of(1)], factors[id_of(2)]
    assert first is not None
    assert voted is not None
    assert (first.scope, first.priority, first.feedback) == (3.0, 0.3, 0.0)
    assert voted.scope == 0.0
    assert voted.feedback == pytest.approx(0.2)
    assert all(hit.relevance is not None for hit in found.results)
    plain = await world.search("song", scope="/api/live/*")
    assert plain.explanation is None
    assert all(hit.factors is None and hit.relevance is None for hit in plain.results)


async def test_neighbours_are_items_of_the_project_whose_scopes_overlap_nearest_first(world: KnowledgeWorld) -> None:
    await world.write(
        item(1, "Every song needs the header game-id.", scope="/api/live/*"),
        item(2, "Every song needs the header game-id.", scope="/api/shop/*"),
        item(3, "Rain is told by the hour.", scope=""),
        item(4, "Every song needs the header game-id.", project="other"),
    )
    asked = FindNearestKnowledge(
        texts=(
            NearestText(text="A song needs the header game-id", scope="/api/live/rooms"),
            NearestText(text="A song needs the header game-id"),
        )
    )
    found = await world.bus.caller.call(FIND_NEAREST_KNOWLEDGE, asked)
    of_scope, of_all = found.neighbours
    assert [one.id for one in of_scope] == [id_of(1), id_of(3)]
    assert {one.id for one in of_all[:2]} == {id_of(1), id_of(2)}
    assert found.model
