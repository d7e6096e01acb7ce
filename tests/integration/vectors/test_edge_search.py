"""Filters that many points pass, over more points than the engine scans in no time."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from skillbus.vectors import DENSE, LEXICAL, CollectionSpec, VectorStore, models, open_vector_store, point_id

pytestmark = pytest.mark.asyncio(loop_scope="module")

POINTS = 6_000
DIM = 16
SPEC = CollectionSpec(dim=DIM, tenant="project", keywords=("kind", "side"))
NORTH = np.eye(DIM)[0]
OTHERS = point_id("of another project")
WORD = 17
"""Index of a word that every second point has, the later the more often."""


def kind_of(row: int) -> str:
    """A third of the points each, but one in a hundred is rare."""
    return "rare" if row % 100 == 0 else ("a", "b", "c")[row % 3]


@pytest.fixture(scope="module")
def rows() -> NDArray[np.float64]:
    made = np.random.default_rng(7).normal(size=(POINTS, DIM))
    unit: NDArray[np.float64] = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit


def side_of(row: NDArray[np.float64]) -> str:
    return "north" if float(row @ NORTH) > 0 else "south"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory, rows: NDArray[np.float64]) -> AsyncIterator[VectorStore]:
    async with open_vector_store(None, tmp_path_factory.mktemp("edge") / "vectors") as opened:
        await opened.ensure_collection("points", SPEC)
        points = [
            models.PointStruct(
                id=point_id(str(at)),
                vector={
                    DENSE: row.tolist(),
                    LEXICAL: models.SparseValues(indices=[WORD if at % 2 else 1], values=[1 + at / POINTS]),
                },
                payload={"project": "p", "kind": kind_of(at), "side": side_of(row)},
            )
            for at, row in enumerate(rows)
        ]
        await opened.upsert("points", points)
        yield opened


def only(**wanted: str) -> models.Filter:
    return models.Filter(
        must=[models.FieldCondition(key=key, match=models.MatchValue(value)) for key, value in wanted.items()]
    )


@pytest.mark.parametrize("kind", ["a", "rare", "nobody"])
@pytest.mark.parametrize("limit", [1, 10, 200])
async def test_the_nearest_of_a_kind_are_those_that_a_scan_finds(
    store: VectorStore, rows: NDArray[np.float64], kind: str, limit: int
) -> None:
    query = rows[5]
    request = models.QueryRequest(query=query.tolist(), using=DENSE, filter=only(project="p", kind=kind), limit=limit)
    [hits] = await store.query("points", [request])
    passing = [at for at in range(POINTS) if kind_of(at) == kind]
    best = sorted((float(rows[at] @ query) for at in passing), reverse=True)[:limit]
    assert {hit.id for hit in hits} <= {point_id(str(at)) for at in passing}
    assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-3)  # the store rounds to float16


@pytest.mark.parametrize("kind", ["a", "b", "nobody"])
@pytest.mark.parametrize("limit", [1, 10, 200, 2_000])
async def test_the_points_of_a_kind_that_have_a_word_are_those_that_a_scan_finds(
    store: VectorStore, kind: str, limit: int
) -> None:
    word = models.SparseValues(indices=[WORD], values=[1.0])
    request = models.QueryRequest(query=word, using=LEXICAL, filter=only(project="p", kind=kind), limit=limit)
    [hits] = await store.query("points", [request])
    passing = [at for at in range(POINTS) if kind_of(at) == kind and at % 2]
    assert [hit.id for hit in hits] == [point_id(str(at)) for at in reversed(passing)][:limit]


@pytest.mark.parametrize("kind", ["a", "b"])
async def test_words_score_the_same_with_and_without_a_filter(store: VectorStore, kind: str) -> None:
    word = models.SparseValues(indices=[WORD], values=[1.0])
    asked = [
        models.QueryRequest(query=word, using=LEXICAL, filter=condition, limit=400)
        for condition in (None, only(project="p", kind=kind))
    ]
    without, having = await store.query("points", asked)
    scores = {hit.id: hit.score for hit in without}
    shared = [hit for hit in having if hit.id in scores]
    assert len(shared) > 100
    assert [hit.score for hit in shared] == [scores[hit.id] for hit in shared]


async def test_one_condition_that_all_points_pass_changes_nothing(
    store: VectorStore, rows: NDArray[np.float64]
) -> None:
    asked = [
        models.QueryRequest(query=rows[5].tolist(), using=DENSE, filter=condition, limit=50)
        for condition in (None, only(project="p"))
    ]
    for _ in range(3):  # the second query counts the points that pass
        without, having = await store.query("points", asked)
        assert [hit.id for hit in having] == [hit.id for hit in without]
        assert [hit.score for hit in having] == pytest.approx([hit.score for hit in without], abs=1e-6)


async def test_the_first_point_of_another_project_is_kept_from_the_next_search(
    store: VectorStore, rows: NDArray[np.float64]
) -> None:
    nearest, mine = rows[5].tolist(), only(project="p")
    request = models.QueryRequest(query=nearest, using=DENSE, filter=mine, limit=10)
    before = [await store.query("points", [request]) for _ in range(3)]  # the third knows that all points pass
    await store.upsert("points", [models.PointStruct(id=OTHERS, vector={DENSE: nearest}, payload={"project": "q"})])
    try:
        after = [await store.query("points", [request]) for _ in range(3)]
    finally:
        await store.delete("points", [OTHERS])
    assert after == before


async def test_points_that_pass_are_found_where_none_of_the_nearest_does(
    store: VectorStore, rows: NDArray[np.float64]
) -> None:
    request = models.QueryRequest(query=NORTH.tolist(), using=DENSE, filter=only(project="p", side="south"), limit=10)
    [hits] = await store.query("points", [request])
    southern = [at for at in range(POINTS) if side_of(rows[at]) == "south"]
    best = sorted(southern, key=lambda at: -float(rows[at] @ NORTH))[:10]
    assert [hit.id for hit in hits] == [point_id(str(at)) for at in best]


async def test_requests_of_a_batch_are_answered_in_their_order(store: VectorStore, rows: NDArray[np.float64]) -> None:
    requests = [
        models.QueryRequest(query=rows[at].tolist(), using=DENSE, filter=only(project="p", kind=kind_of(at)), limit=1)
        for at in (1, 100, 2, 3)
    ]
    answers = await store.query("points", requests)
    assert [hits[0].id for hits in answers] == [point_id(str(at)) for at in (1, 100, 2, 3)]


async def test_vectors_that_are_quantized_are_found_as_by_an_exact_scan(tmp_path: Path) -> None:
    dice = np.random.default_rng(11)
    made = dice.normal(size=(POINTS, 256))
    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    async with open_vector_store(None, tmp_path / "vectors") as store:
        await store.ensure_collection("points", CollectionSpec(dim=256))
        ids = [point_id(str(at)) for at in range(POINTS)]
        vectors = zip(ids, unit, strict=True)
        await store.upsert("points", [models.PointStruct(id=id_, vector={DENSE: row.tolist()}) for id_, row in vectors])
        for query in unit[:20] + dice.normal(size=(20, 256)) * 0.05:
            asked = models.QueryRequest(query=query.tolist(), using=DENSE, limit=32)
            [hits] = await store.query("points", [asked])
            cosines = unit @ (query / np.linalg.norm(query))
            best = np.sort(cosines)[::-1][:32]
            assert [hit.score for hit in hits] == pytest.approx(best.tolist(), abs=1e-3)
