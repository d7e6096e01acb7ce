"""From a query to hits, over an index and an embedder that are written here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from skillbus.contracts.retriever import SearchTools
from skillbus.contracts.tools import ToolType
from skillbus.retriever.domain.ranking import Candidate
from skillbus.retriever.domain.relevance import NEUTRAL
from skillbus.retriever.domain.search import EmbeddedQuery, Found, LiveIndex, ToolSearch, Wanted
from skillbus.retriever.domain.tool import StoredTool

LIVE = LiveIndex("tools-abc-v1", "abc", 100)


@dataclass
class FakeIndex:
    """Tools by point, each with a cosine that falls with its place."""

    stored: Mapping[str, StoredTool] = field(default_factory=dict)
    index: LiveIndex | None = LIVE
    gone: frozenset[str] = frozenset()
    wanted: list[Wanted] = field(default_factory=list)

    async def live(self) -> LiveIndex | None:
        return self.index

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted) -> Sequence[Candidate]:
        self.wanted.append(wanted)
        places = enumerate(self.stored)
        return [
            Candidate(point, None if query.dense is None else 0.9 - place / 100, 9.0 - place) for place, point in places
        ]

    async def tools(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, StoredTool]:
        return {point: self.stored[point] for point in points if point not in self.gone}


@dataclass
class FakeEmbedder:
    dense: tuple[float, ...] | None = (1.0, 0.0)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def embed(self, query: str, fingerprint: str) -> EmbeddedQuery:
        self.asked.append((query, fingerprint))
        model = "use-multilingual-v3" if self.dense else None
        return EmbeddedQuery(self.dense, (1, 2), (1.0, 1.0), ("提交", "代码"), model, NEUTRAL)


def tools(*kinds: str | None) -> dict[str, StoredTool]:
    return {f"p{at}": StoredTool(f"skill:t{at}", f"t{at}", "", kind) for at, kind in enumerate(kinds)}


async def find(index: FakeIndex, limit: int = 5, embedder: FakeEmbedder | None = None) -> Found:
    search = ToolSearch(embedder or FakeEmbedder(), index, candidates=64)
    return await search.find(SearchTools(query="帮我提交代码", limit=limit))


async def names(index: FakeIndex, limit: int = 5) -> list[str]:
    return [hit.name for hit in (await find(index, limit)).hits]


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
    assert index.wanted[0].count == 100


async def test_an_index_that_was_never_made_gives_nothing() -> None:
    """tool-type.md § 边界测试, 空结果"""
    assert await find(FakeIndex(index=None)) == Found()


async def test_a_tool_that_is_gone_meanwhile_is_left_out_and_the_next_takes_its_place() -> None:
    assert await names(FakeIndex(tools("skill", "skill", "skill"), gone=frozenset({"p0"})), limit=2) == ["t1", "t2"]


async def test_every_kind_of_tool_is_named_at_the_top_and_in_the_metadata() -> None:
    """tool-type.md § 功能测试"""
    kinds = [kind.value for kind in ToolType]
    hits = (await find(FakeIndex(tools(*kinds)))).hits
    assert [hit.tool_type.value for hit in hits] == kinds
    assert [hit.metadata["type"] for hit in hits] == kinds


async def test_the_rest_of_the_metadata_is_kept() -> None:
    tool = StoredTool("skill:x", "x", "", "skill", metadata={"path": "data/skills/x", "type": "old"})
    (hit,) = (await find(FakeIndex({"p": tool}))).hits
    assert hit.metadata == {"path": "data/skills/x", "type": "skill"}


async def test_a_tool_without_a_kind_is_a_skill_and_the_log_says_so() -> None:
    """tool-type.md § 异常处理, undefined"""
    with capture_logs() as logs:
        (hit,) = (await find(FakeIndex(tools(None)))).hits
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
    hits = (await find(FakeIndex(tools("skill", "skill")))).hits
    assert [(r.side, r.rank, r.score) for r in hits[1].reasons] == [("dense", 2, 0.89), ("lexical", 2, 8.0)]


async def test_the_lexical_reason_tells_the_terms_that_query_and_tool_share() -> None:
    tool = StoredTool("skill:x", "x", "", "skill", term_indices=frozenset({1, 7}))
    (hit,) = (await find(FakeIndex({"p": tool}))).hits
    assert {reason.side: reason.terms for reason in hit.reasons} == {"dense": (), "lexical": ("提交",)}


async def test_without_a_dense_vector_the_answer_says_that_it_is_degraded() -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败"""
    found = await find(FakeIndex(tools("skill")), embedder=FakeEmbedder(dense=None))
    assert (found.degraded, found.model, found.hits[0].cosine) == (True, None, None)
