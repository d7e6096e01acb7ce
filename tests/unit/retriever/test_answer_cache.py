"""Answers of tool searches that are kept while nothing is written to the index."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolsFound
from skillbus.relevance.score import NEUTRAL, Relevance
from skillbus.retriever.domain.index import EmbeddedQuery, LiveIndex
from skillbus.retriever.domain.tools.answer_cache import ToolAnswerCache, ToolAnswerKey
from skillbus.retriever.domain.tools.search import ToolSearch

from .tool_fakes import FakeEmbedder, FakeIndex, tools

LIVE = LiveIndex("tools-abc-v1", "abc", 100)
QUERY = EmbeddedQuery((1.0, 0.0), (1,), (1.0,), ("word",), "model", NEUTRAL)


@dataclass
class MappedEmbedder(FakeEmbedder):
    """An embedder whose model has a map that can change."""

    relevance: Relevance = field(default=NEUTRAL)

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        return replace(await super().embed_query(query, parts, fingerprint), relevance=self.relevance)


async def count_questions(
    index: FakeIndex, embedder: FakeEmbedder, between: Any = lambda: None, **asked: Any
) -> tuple[int, bool]:
    """Search twice. Return how often the index was asked for candidates, and whether both found the same."""
    search = ToolSearch(embedder, index, candidates=64, fits=0.5)
    request = SearchTools(query="read a file", **asked)
    first = await search.search_tools(request)
    between()
    second = await search.search_tools(request)
    return len(index.wanted), first.results == second.results


async def test_a_search_that_is_repeated_does_not_ask_the_index_again() -> None:
    assert await count_questions(FakeIndex(tools("skill", "mcp"), revision=1), FakeEmbedder()) == (1, True)


async def test_a_repeated_search_says_its_own_time() -> None:
    search = ToolSearch(FakeEmbedder(), FakeIndex(tools("skill"), revision=1), candidates=64, fits=0.5)
    times = [(await search.search_tools(SearchTools(query="read a file"))).took_ms for _ in range(5)]
    assert len(set(times)) > 1


async def test_a_write_to_the_index_is_found_by_the_next_search() -> None:
    index = FakeIndex(tools("skill"), revision=1)

    def write() -> None:
        index.stored, index.revision = tools("skill", "mcp"), 2

    assert await count_questions(index, FakeEmbedder(), write) == (2, False)


async def test_a_changed_map_of_the_model_changes_the_scores_of_a_repeated_search() -> None:
    embedder = MappedEmbedder()

    def calibrate() -> None:
        embedder.relevance = replace(NEUTRAL, offset=-1.0)

    index = FakeIndex(tools("skill"), revision=1)
    assert await count_questions(index, embedder, calibrate, threshold=0.0) == (2, False)


async def test_another_collection_behind_the_alias_is_searched() -> None:
    index = FakeIndex(tools("skill"), revision=1)

    def switch() -> None:
        index.index, index.stored = LiveIndex("tools-def-v1", "def", 100), tools("mcp", "mcp")

    assert await count_questions(index, FakeEmbedder(), switch) == (2, False)


@pytest.mark.parametrize("asked", [{"explain": True}, {"functions": True}])
async def test_an_explanation_and_functions_are_made_for_each_search(asked: dict[str, bool]) -> None:
    assert await count_questions(FakeIndex(tools("skill"), revision=1), FakeEmbedder(), **asked) == (2, True)


async def test_where_others_may_write_unnoticed_every_search_asks_the_index() -> None:
    assert await count_questions(FakeIndex(tools("skill"), revision=None), FakeEmbedder()) == (2, True)


async def test_an_answer_of_words_alone_is_not_kept() -> None:
    assert await count_questions(FakeIndex(tools("skill"), revision=1), FakeEmbedder(dense=None)) == (2, True)


def test_answers_are_bounded_by_the_number_of_their_hits() -> None:
    hit = ToolHit(id="skill:a", name="a", description="", score=1.0, cosine=1.0, tool_type="skill")
    cache = ToolAnswerCache(hits=12)
    keys = [ToolAnswerKey.make(SearchTools(query=str(at)), LIVE, 1, QUERY, 10) for at in range(3)]
    for key in keys:
        cache.keep_answer(key, ToolsFound(results=(hit,) * 5, took_ms=1.0))
    assert [cache.get_answer(key) is not None for key in keys] == [False, True, True]
    cache.keep_answer(keys[0], ToolsFound(results=(hit,) * 20, took_ms=1.0))
    assert cache.get_answer(keys[0]) is None
