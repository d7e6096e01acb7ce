from collections.abc import Sequence
from dataclasses import replace

import pytest

from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.adapters.bus_embedder import QueryCache
from skillbus.retriever.domain.index import EmbeddedQuery


class CountingEmbedder:
    def __init__(self, dense: Sequence[float] | None = (1.0,)) -> None:
        self.dense = dense
        self.relevance = NEUTRAL
        self.asked: list[tuple[str, str]] = []

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        self.asked.append((query, fingerprint))
        return EmbeddedQuery(self.dense, (), (), (), "model", self.relevance)


@pytest.mark.spec("tool-system.md § 风险1 超时 + 输出限制 + 缓存")
async def test_a_query_seen_before_is_not_embedded_again() -> None:
    embedder = CountingEmbedder()
    cache = QueryCache(embedder, size=2)
    assert await cache.embed_query("a", (), "m1") == await cache.embed_query("a", (), "m1")
    assert embedder.asked == [("a", "m1")]


async def test_another_model_is_another_query() -> None:
    embedder = CountingEmbedder()
    cache = QueryCache(embedder, size=2)
    await cache.embed_query("a", (), "m1")
    await cache.embed_query("a", (), "m2")
    assert len(embedder.asked) == 2


async def test_the_query_that_was_not_asked_for_longest_is_forgotten_first() -> None:
    embedder = CountingEmbedder()
    cache = QueryCache(embedder, size=2)
    for query in ("a", "b", "a", "c", "a", "b"):
        await cache.embed_query(query, (), "m1")
    assert [query for query, _ in embedder.asked] == ["a", "b", "c", "b"]


async def test_an_answer_without_a_dense_vector_is_not_kept() -> None:
    embedder = CountingEmbedder(dense=None)
    cache = QueryCache(embedder, size=2)
    await cache.embed_query("a", (), "m1")
    embedder.dense = (1.0,)
    assert (await cache.embed_query("a", (), "m1")).dense == (1.0,)


async def test_a_map_of_scores_that_was_changed_holds_for_queries_seen_before_too() -> None:
    embedder = CountingEmbedder()
    cache = QueryCache(embedder, size=2)
    await cache.embed_query("a", (), "m1")
    embedder.relevance = replace(NEUTRAL, offset=1.0)
    await cache.embed_query("b", (), "m1")
    assert (await cache.embed_query("a", (), "m1")).relevance == embedder.relevance


async def test_a_query_that_is_split_is_another_than_the_same_as_a_whole() -> None:
    embedder = CountingEmbedder()
    cache = QueryCache(embedder, size=2)
    await cache.embed_query("a. b", (), "m1")
    await cache.embed_query("a. b", ("a.", "b"), "m1")
    assert len(embedder.asked) == 2
