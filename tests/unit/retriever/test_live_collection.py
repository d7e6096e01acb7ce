"""Candidates, sizes and scores of the live collection, over a store that counts its calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from skillbus.contracts.learner.index import KnowledgeFilter
from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.adapters import live_collection
from skillbus.retriever.adapters.live_collection import LiveCollection
from skillbus.retriever.adapters.vector_knowledge import VectorKnowledge
from skillbus.retriever.adapters.vector_tools import VectorTools
from skillbus.retriever.domain.index import EmbeddedQuery, LiveIndex
from skillbus.retriever.domain.knowledge.ports import WantedKnowledge
from skillbus.retriever.domain.tools.search import WantedTools
from skillbus.vectors import DENSE, Hit, PayloadFields, StoreHealth, VectorNames, models
from skillbus.vectors.datasets import TOOLS

LIVE = LiveIndex("tools-abc-v2", "abc", 3)
QUERY = EmbeddedQuery((1.0, 0.0), (7,), (1.0,), ("word",), "model", NEUTRAL, parts=((0.6, 0.8), (0.0, 1.0)))
CLOSE = {"a": np.array([1.0, 0.0]), "b": np.array([0.8, 0.6]), "c": np.array([0.0, 1.0])}
"""Dense vectors by point; their cosines with the query are 1, .8 and 0."""


@dataclass
class CountingStore:
    """A `VectorSearch` of three points."""

    live: str | None = LIVE.collection
    counted: list[models.Filter | None] = field(default_factory=list)
    asked: list[Sequence[models.QueryRequest]] = field(default_factory=list)
    read: list[Sequence[str]] = field(default_factory=list)
    revision: int | None = None

    async def resolve_alias(self, alias: str) -> str | None:
        return self.live

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        self.asked.append(requests)
        return [self._answer(request) for request in requests]

    def _answer(self, request: models.QueryRequest) -> list[Hit]:
        if request.using != DENSE:
            return [Hit("c", 5.0)]
        assert isinstance(request.query, list)
        query = np.array(request.query)
        scores = {point: float(query @ vector) for point, vector in CLOSE.items()}
        must = request.filter.must if request.filter else None
        named = must[0].has_id if isinstance(must, list) and isinstance(must[0], models.HasIdCondition) else ["a", "b"]
        return [Hit(str(point), scores[str(point)]) for point in named]

    async def retrieve(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> list[models.Record]:
        self.read.append(ids)
        payload = {"tool_id": "id", "name": f"at {self.revision}", "description": ""}
        return [models.Record(point, payload) for point in ids if point != "gone"]

    def get_revision(self, collection: str) -> int | None:
        return self.revision

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        self.counted.append(condition)
        return len(self.counted)

    async def health(self) -> StoreHealth:
        return StoreHealth(True, "fake")


async def test_each_candidate_has_its_best_cosine_of_query_and_sentences_and_each_sides_view_of_the_others_points() -> (
    None
):
    store = CountingStore()
    found = await VectorTools(store).find_candidates(LIVE, QUERY, WantedTools("default", (), (), (), 20))
    best = {one.id: (one.cosine, one.bm25) for one in found}
    assert best == {
        "a": (1.0, None),  # by the query; its sentences have .6 and 0
        "b": (pytest.approx(0.96), None),  # by the first sentence; the query has .8
        "c": (1.0, 5.0),  # by the second sentence; found by its words
    }
    assert [len(requests) for requests in store.asked] == [2, 4]


async def test_the_alias_is_resolved_again_only_when_its_collection_was_known_for_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = CountingStore()
    monkeypatch.setattr(live_collection, "_LIVE_FOR_S", 3600.0)
    collection, forgetful = LiveCollection(store, TOOLS), LiveCollection(store, TOOLS)
    first = await collection.find_live_index()
    monkeypatch.setattr(live_collection, "_LIVE_FOR_S", 0.0)
    assert await forgetful.find_live_index() is not None
    store.live = "tools-def-v2"
    assert first == LiveIndex(LIVE.collection, "abc", 1)
    assert await collection.find_live_index() is first
    assert await forgetful.find_live_index() == LiveIndex("tools-def-v2", "def", 3)
    store.live = None
    assert await forgetful.find_live_index() is None


async def test_a_projects_size_is_counted_once_in_two_seconds_for_each_project_and_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = CountingStore()
    monkeypatch.setattr(live_collection, "_SIZE_FOR_S", 3600.0)
    collection = LiveCollection(store, TOOLS)
    other = LiveIndex("tools-def-v2", "def", 3)
    sizes = [
        await collection.count_project(live, project)
        for live, project in ((LIVE, "a"), (LIVE, "a"), (LIVE, "b"), (other, "a"), (LIVE, "b"), (other, "a"))
    ]
    assert sizes == [1, 1, 2, 3, 2, 3]
    monkeypatch.setattr(live_collection, "_SIZE_FOR_S", 0.0)
    forgetful = LiveCollection(store, TOOLS)
    assert [await forgetful.count_project(LIVE, "a") for _ in range(2)] == [4, 5]


async def test_sizes_are_not_counted_again_at_the_same_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore(revision=1)
    monkeypatch.setattr(live_collection, "_SIZE_FOR_S", 0.0)
    monkeypatch.setattr(live_collection, "_LIVE_FOR_S", 0.0)
    collection = LiveCollection(store, TOOLS)

    async def read_sizes() -> tuple[int, int]:
        live = await collection.find_live_index()
        assert live is not None
        return live.items, await collection.count_project(live, "a")

    assert [await read_sizes(), await read_sizes()] == [(1, 2), (1, 2)]
    store.revision = 2
    assert [await read_sizes(), await read_sizes()] == [(3, 4), (3, 4)]
    store.revision = None
    assert [await read_sizes(), await read_sizes()] == [(5, 6), (7, 8)]


async def test_without_candidates_of_a_type_nothing_is_asked() -> None:
    store = CountingStore()
    wanted = WantedTools("default", (), (), (), 20, each_type=True)
    assert await VectorTools(store).find_candidates(LIVE, QUERY, wanted) == []


async def test_tools_are_read_once_at_a_revision_and_again_after_a_write() -> None:
    store = CountingStore(revision=1)
    tools = VectorTools(store)
    for points, read in ((["a", "b"], ["a", "b"]), (["a", "b", "c", "gone"], ["c", "gone"]), (["gone"], ["gone"])):
        found = await tools.load_tools(LIVE, points, functions=False)
        assert list(found) == [point for point in points if point != "gone"]
        assert store.read[-1] == read
    store.revision = 2
    assert (await tools.load_tools(LIVE, ["a"], functions=False))["a"].name == "at 2"


@pytest.mark.parametrize(("revision", "functions"), [(None, False), (1, True)])
async def test_tools_are_read_each_time_where_others_may_write_or_their_functions_are_wanted(
    revision: int | None, functions: bool
) -> None:
    store = CountingStore(revision=revision)
    tools = VectorTools(store)
    for _ in range(2):
        await tools.load_tools(LIVE, ["a"], functions=functions)
    assert store.read == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("revision", "later_s", "written", "searches"),
    [(1, 59.0, 0, 1), (1, 60.0, 0, 2), (1, 0.0, 1, 2), (None, 0.0, 0, 2)],
)
async def test_candidates_of_knowledge_are_kept_for_a_minute_or_until_the_next_write(
    revision: int | None, later_s: float, written: int, searches: int
) -> None:
    store = CountingStore(revision=revision)
    index = VectorKnowledge(store)
    first, later = (WantedKnowledge(KnowledgeFilter(), ("default",), 600.0 + s, 3) for s in (0.0, later_s))
    query = EmbeddedQuery((1.0, 0.0), (7,), (1.0,), ("word",), "model", NEUTRAL)
    before = await index.find_candidates(LIVE, query, first)
    if store.revision is not None:
        store.revision += written
    assert await index.find_candidates(LIVE, query, later) == before
    assert len(store.asked) == searches
