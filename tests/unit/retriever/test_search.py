"""From a query to hits, over an index and an embedder that are written here."""

import json
from typing import Any

import pytest
from pydantic import JsonValue
from structlog.testing import capture_logs

from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.search_explanation import DropCause
from skillbus.contracts.retriever.tool_search import SearchTools, ToolsFound
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.tools.hit import IndexedTool
from skillbus.retriever.domain.tools.ranking import POOL
from skillbus.retriever.domain.tools.search import ToolSearch

from .tool_fakes import FakeEmbedder, FakeIndex, tools


async def find(
    index: FakeIndex, limit: int = 5, embedder: FakeEmbedder | None = None, query: str = "帮我提交代码", **asked: Any
) -> ToolsFound:
    search = ToolSearch(embedder or FakeEmbedder(), index, candidates=64, fits=0.5)
    return await search.search_tools(SearchTools(query=query, limit=limit, **asked))


async def names(index: FakeIndex, limit: int = 5, **asked: Any) -> list[str]:
    return [hit.name for hit in (await find(index, limit, **asked)).results]


async def test_the_query_is_embedded_by_the_model_of_the_index() -> None:
    embedder = FakeEmbedder()
    await find(FakeIndex(tools("skill")), embedder=embedder)
    assert embedder.asked == [("帮我提交代码", "abc")]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_no_more_than_the_limit_come_back(limit: int) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    assert await names(FakeIndex(tools("skill", "mcp", "builtin")), limit) == ["t0", "t1", "t2"][:limit]


async def test_both_sides_are_asked_for_more_than_the_limit() -> None:
    index = FakeIndex(tools("skill"))
    await find(index, limit=50)
    assert index.wanted[0].count == 150


async def test_an_index_that_was_never_made_gives_nothing() -> None:
    """tool-type.md § 边界测试, 空结果"""
    found = await find(FakeIndex(index=None))
    assert (found.results, found.model, found.degraded) == ((), None, None)


async def test_a_tool_that_is_gone_meanwhile_is_left_out_and_the_next_takes_its_place() -> None:
    assert await names(FakeIndex(tools("skill", "skill", "skill"), gone=frozenset({"p0"})), limit=2) == ["t1", "t2"]


async def test_every_kind_of_tool_is_named_at_the_top_and_in_the_metadata() -> None:
    """tool-type.md § 功能测试"""
    kinds = [kind.value for kind in ToolType]
    hits = (await find(FakeIndex(tools(*kinds)))).results
    assert [hit.tool_type.value for hit in hits] == kinds
    assert [hit.metadata["type"] for hit in hits] == kinds


@pytest.mark.parametrize(
    ("kind", "metadata", "callable_"),
    [
        ("mcp", {}, True),
        ("builtin", {}, True),
        ("external", {}, False),
        ("skill", {"actions": ["run"]}, True),
        ("skill", {"actions": []}, False),
    ],
)
async def test_a_hit_says_whether_it_can_be_called(kind: str, metadata: dict[str, JsonValue], callable_: bool) -> None:
    (hit,) = (await find(FakeIndex({"p": IndexedTool("x", "x", "", kind, metadata=metadata)}))).results
    assert hit.callable is callable_


async def test_functions_are_returned_on_request_until_they_would_crowd_out_the_hits() -> None:
    def make_tool(name: str, size: int) -> IndexedTool:
        stored = [{"id": name, "description": "x" * size, "parameters": {"type": "object"}}]
        return IndexedTool(name, name, "", "mcp", functions=json.dumps(stored))

    index = FakeIndex({name: make_tool(name, size) for name, size in (("a", 9), ("b", 250_000), ("c", 250_000))})
    index.stored = {**index.stored, "d": make_tool("d", 9), "e": IndexedTool("e", "e", "", "mcp")}
    found = {hit.name: hit.functions for hit in (await find(index, functions=True)).results}
    assert {name: functions and functions[0].id for name, functions in found.items()} == {
        **{name: name for name in "abd"},
        **dict.fromkeys("ce"),
    }
    assert {hit.functions for hit in (await find(index)).results} == {None}


async def test_the_rest_of_the_metadata_is_kept() -> None:
    tool = IndexedTool("skill:x", "x", "", "skill", metadata={"path": "data/skills/x", "type": "old"})
    (hit,) = (await find(FakeIndex({"p": tool}))).results
    assert hit.metadata == {"path": "data/skills/x", "type": "skill"}


async def test_a_tool_without_a_kind_is_a_skill_and_the_log_says_so() -> None:
    """tool-type.md § 异常处理, undefined"""
    with capture_logs() as logs:
        (hit,) = (await find(FakeIndex(tools(None)))).results
    assert hit.tool_type is ToolType.SKILL
    assert [(log["log_level"], log["event"]) for log in logs] == [("debug", "tool_type_absent")]


async def test_a_tool_of_an_unknown_kind_is_left_out_with_a_warning_and_the_next_takes_its_place() -> None:
    """tool-type.md § 异常处理, 非法值"""
    with capture_logs() as logs:
        assert await names(FakeIndex(tools("plugin", "skill")), limit=1) == ["t1"]
    assert [(log["log_level"], log["event"], log["tool_type"]) for log in logs] == [
        ("warning", "tool_type_unknown", "plugin")
    ]


async def test_the_reasons_give_place_and_value_on_each_side() -> None:
    hits = (await find(FakeIndex(tools("skill", "skill")))).results
    assert [(r.side, r.rank, r.score) for r in hits[1].reasons] == [("dense", 2, 0.89), ("lexical", 2, 8.0)]


async def test_the_lexical_reason_tells_the_terms_that_query_and_tool_share() -> None:
    tool = IndexedTool("skill:x", "x", "", "skill", weights={1: 1.0, 7: 1.0})
    (hit,) = (await find(FakeIndex({"p": tool}))).results
    assert {reason.side: reason.terms for reason in hit.reasons} == {"dense": (), "lexical": ("提交",)}


async def test_without_a_dense_vector_the_answer_says_that_it_is_degraded() -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败"""
    found = await find(FakeIndex(tools("skill")), embedder=FakeEmbedder(dense=None))
    assert (found.degraded, found.model, found.results[0].cosine) == ("lexical", None, None)


async def test_when_not_even_the_best_is_likely_to_fit_nothing_comes_back() -> None:
    index = FakeIndex(tools("skill", "skill"), nearest=0.05)
    assert (await find(index)).results == ()
    assert await names(index, threshold=0.0) == ["t0", "t1"]


async def test_among_few_tools_the_best_needs_less_evidence_to_be_likely_to_fit() -> None:
    kinds = tools("skill")
    assert (await find(FakeIndex(kinds, nearest=0.05, tools_of_project=20_000))).results == ()
    assert len((await find(FakeIndex(kinds, nearest=0.05, tools_of_project=5))).results) == 1


async def test_hits_behind_one_that_fits_need_not_be_likely_to_fit_themselves() -> None:
    hits = (await find(FakeIndex(tools(*["skill"] * 60)), limit=60)).results
    assert hits[0].score > 0.5 > hits[-1].score


@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.95, 1.0])
async def test_a_threshold_keeps_the_hits_that_reach_it_and_no_others(threshold: float) -> None:
    """skill-vector-retrieval.md § 相似度阈值过滤"""
    index = FakeIndex(tools(*["skill"] * 60))
    everything = (await find(index, limit=60, threshold=0.0)).results
    kept = (await find(index, limit=60, threshold=threshold)).results
    assert kept == tuple(hit for hit in everything if hit.score >= threshold)


async def test_quotas_leave_places_to_kinds_that_would_have_had_none() -> None:
    index = FakeIndex(tools("mcp", "mcp", "mcp", "builtin", "skill", "mcp"))
    assert await names(index, limit=4, quotas={"mcp": 2}) == ["t0", "t1", "t3", "t4"]
    assert await names(index, limit=4, quotas={"mcp": 0, "skill": 0}) == ["t3"]


async def test_quotas_ask_for_candidates_of_each_kind_lest_one_take_all_places() -> None:
    index = FakeIndex(tools("mcp", "skill"))
    await find(index, quotas={"mcp": 1, "builtin": 0})
    (wanted,) = index.wanted
    assert wanted.each_type
    assert wanted.tool_types == tuple(kind for kind in ToolType if kind is not ToolType.BUILTIN)


async def test_tags_sources_and_project_are_filters_of_the_index() -> None:
    index = FakeIndex(tools("skill"))
    await find(index, tags=("git",), sources=("mcp:files",), project="other")
    (wanted,) = index.wanted
    assert (wanted.tags, wanted.sources, wanted.project) == (("git",), ("mcp:files",), "other")


TWO_WISHES = "Find me a cheap flight to Rome. Then book a hotel close to the station there."


async def test_a_request_of_several_sentences_is_searched_for_each_of_them_and_says_so() -> None:
    embedder = FakeEmbedder()
    found = await find(FakeIndex(tools("skill")), embedder=embedder, query=TWO_WISHES)
    assert found.split == embedder.parts
    assert [part.split()[0] for part in found.split] == ["Find", "Then"]


async def test_a_request_is_not_split_against_the_callers_will() -> None:
    assert (await find(FakeIndex(tools("skill")), query=TWO_WISHES, split=False)).split == ()


async def test_an_explanation_tells_the_stages_the_threshold_and_what_it_kept_out() -> None:
    found = await find(FakeIndex(tools("skill", "mcp"), nearest=0.05), explain=True)
    told = found.explanation
    assert told is not None
    assert [(stage.name, stage.candidates) for stage in told.stages] == [
        ("embed", 0),
        ("filter", 2),
        ("candidates", 2),
        ("rank", 2),
        ("fetch", 0),
    ]
    assert told.threshold == pytest.approx(0.5)
    assert (told.below_threshold, told.terms) == (2, ("提交", "代码"))
    assert told.best_score is not None
    assert 0 < told.best_score < 0.5


async def test_nothing_is_explained_unless_it_is_asked_for() -> None:
    found = await find(FakeIndex(tools("skill")))
    assert found.explanation is None
    assert [hit.parts for hit in found.results] == [None]


@pytest.mark.parametrize("side", [None, "dense", "lexical"])
async def test_the_parts_of_a_score_add_up_to_it(side: str | None) -> None:
    alike = {point: tool._replace(weights={1: 1.0}) for point, tool in tools("skill", "mcp").items()}
    found = await find(FakeIndex(alike), explain=True, side=side)
    for hit in found.results:
        assert hit.parts is not None
        total = (hit.parts.dense or 0.0) + hit.parts.lexical + hit.parts.offset + hit.parts.likeness
        assert hit.score == pytest.approx(compute_probability(total))
    first, second = (hit.parts for hit in found.results)
    assert first is not None
    assert second is not None
    assert (first.likeness, second.likeness) == (0.0, -0.5)
    assert first.fused == pytest.approx(found.results[0].score)
    assert found.results[1].repeats == found.results[0].id


async def test_one_side_alone_is_compared_on_request() -> None:
    index = FakeIndex(tools("skill"))
    words = await find(index, side="lexical", explain=True)
    assert (words.results[0].cosine, words.degraded) == (None, None)
    assert index.queries[-1].dense is None
    vectors = await find(index, side="dense", explain=True)
    assert vectors.results[0].cosine is not None
    assert index.queries[-1].indices == ()
    assert vectors.explanation is not None
    assert vectors.explanation.terms == ()


async def test_an_explanation_names_what_was_dropped_by_cause() -> None:
    index = FakeIndex(tools("skill", "skill", "mcp", "mcp", "mcp"), gone=frozenset({"p0"}), nearest=0.5, step=0.02)
    found = await find(index, limit=3, quotas={"mcp": 1}, threshold=0.5, explain=True)
    assert [hit.id for hit in found.results] == ["skill:t1", "skill:t2"]
    assert found.explanation is not None
    dropped = {group.cause: group for group in found.explanation.dropped}
    assert {cause.value: [hit.id for hit in group.first] for cause, group in dropped.items()} == {
        "refused": ["p0"],
        "over_quota": ["skill:t3"],
        "below_threshold": ["skill:t4"],
    }
    assert dropped[DropCause.OVER_QUOTA].first[0].title == "t3"
    assert found.explanation.indexed == index.tools_of_project


async def test_candidates_beyond_the_limit_are_counted_and_the_best_of_them_named() -> None:
    found = await find(FakeIndex(tools(*["skill"] * 40), step=0.001), limit=2, explain=True)
    assert found.explanation is not None
    (group,) = found.explanation.dropped
    assert (group.cause, group.count, len(group.first)) == (DropCause.OVER_LIMIT, 38, 20)
    assert [hit.title for hit in group.first[:2]] == ["t2", "t3"]


async def test_the_lexical_reason_tells_in_which_parts_of_the_tool_the_terms_stand() -> None:
    tool = IndexedTool(
        "mcp:git/gitCommit",
        "gitCommit",
        "把代码提交到仓库",
        "mcp",
        tags=("vcs",),
        arguments=("message",),
        weights={1: 1.0},
    )
    (hit,) = (await find(FakeIndex({"p": tool}))).results
    assert [reason.parts for reason in hit.reasons] == [(), ("description",)]


async def test_a_hit_that_repeats_one_above_it_says_which() -> None:
    twins = {f"p{at}": IndexedTool(f"skill:t{at}", f"t{at}", "", "skill", weights={1: 1.0}) for at in range(2)}
    hits = (await find(FakeIndex(twins))).results
    assert [hit.repeats for hit in hits] == [None, "skill:t0"]


async def test_every_tool_of_the_pool_is_compared_with_those_above_it() -> None:
    """The copies fill all places but the last of the pool, which differs and must not be left out."""
    copies = {f"p{at}": IndexedTool(f"skill:t{at}", f"t{at}", "", "skill", weights={1: 1.0}) for at in range(POOL - 1)}
    other = IndexedTool("skill:other", "other", "", "skill", weights={2: 1.0})
    found = await names(FakeIndex({**copies, "q": other}, step=0.0001), limit=2, threshold=0.0)
    assert POOL >= 10
    assert found == ["t0", "other"]
