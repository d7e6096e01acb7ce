"""What every engine behind the port does alike, held against brute force in numpy."""

import math
from uuid import uuid4

import numpy as np
import pytest

from skillbus.vectors import (
    DENSE,
    LEXICAL,
    CollectionMismatch,
    CollectionMissing,
    CollectionSpec,
    Hit,
    VectorStoreRejected,
    models,
    point_id,
)

FLOAT16 = 3e-4
"""Precision of stored vectors: 2**-12 for numbers below 1, and for cosines of two vectors of length 1."""
DIM = 16
SPEC = CollectionSpec(dim=DIM, keywords=("tool_type", "tags", "name"), numbers=("size", "from", "to"))
NOON = 1_700_000_000.0
OPEN = 253402300800.0
"""Seconds since 1970: a float must not lose one of them."""
PROJECTS = ("default", "客厅", 'o\'brien "x"')
TYPES = ("skill", "mcp", "builtin")


def vectors(count: int, seed: int = 7) -> np.ndarray:
    """Unit vectors, (count, DIM)."""
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sparse(row: int) -> dict[int, float]:
    """Index 1 is in every point, 2 in every second, 3 in every fifth, and 1000 + row in one."""
    weights = {1: 0.5, 1000 + row: 1.5}
    if row % 2 == 0:
        weights[2] = 1.0 + row % 3
    if row % 5 == 0:
        weights[3] = 2.0
    return weights


def payload(row: int) -> dict[str, object]:
    return {
        "project": PROJECTS[row % 3],
        "tool_type": TYPES[row % 2],
        "tags": [f"标签{row % 4}", "all"],
        "name": f"tool-{row}",
        "size": row,
        "from": NOON + 1 if row % 7 == 0 else NOON,
        **({} if row % 35 == 0 else {"to": NOON if row % 5 == 0 else OPEN}),
        "deep": {"er": f"值 {row}\n\t\"' \\ 🦉", "list": [1, 2.5, None, True]},
    }


def points(count: int) -> list[models.PointStruct]:
    dense = vectors(count)
    return [
        models.PointStruct(
            id=point_id("test", str(row)),
            vector={
                DENSE: dense[row].tolist(),
                LEXICAL: models.SparseValues(indices=list(sparse(row)), values=list(sparse(row).values())),
            },
            payload=payload(row),
        )
        for row in range(count)
    ]


def matches(key: str, value: str | int | bool) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def within(key: str, **bounds: float) -> models.FieldCondition:
    return models.FieldCondition(key=key, range=models.Range(**bounds))


def rows_of(hits: list[Hit], count: int) -> list[int]:
    row = {point_id("test", str(number)): number for number in range(count)}
    return [row[hit.id] for hit in hits]


async def filled(place, count: int) -> str:
    name = place.name("tools")
    await place.store.ensure_collection(name, SPEC)
    await place.store.upsert(name, points(count))
    return name


FILTERS = {
    "tenant": (models.Filter(must=[matches("project", PROJECTS[1])]), lambda row: row % 3 == 1),
    "tenant with quotes": (models.Filter(must=[matches("project", PROJECTS[2])]), lambda row: row % 3 == 2),
    "any of the tags": (
        models.Filter(must=[models.FieldCondition(key="tags", match=models.MatchAny(any=["标签1", "标签2", "none"]))]),
        lambda row: row % 4 in {1, 2},
    ),
    "any of nothing": (
        models.Filter(must=[models.FieldCondition(key="tags", match=models.MatchAny(any=[]))]),
        lambda _: False,
    ),
    "tenant and type": (
        models.Filter(must=[matches("project", "default"), matches("tool_type", "mcp")]),
        lambda row: row % 3 == 0 and row % 2 == 1,
    ),
    "should and must not": (
        models.Filter(
            should=[matches("project", "default"), matches("project", "客厅")], must_not=[matches("tool_type", "skill")]
        ),
        lambda row: row % 3 in {0, 1} and row % 2 != 0,
    ),
    "range": (
        models.Filter(must=[models.FieldCondition(key="size", range=models.Range(gte=10, lt=40))]),
        lambda row: 10 <= row < 40,
    ),
    "ranges of two fields at a time": (
        models.Filter(must=[within("from", lte=NOON), within("to", gt=NOON)]),
        lambda row: row % 7 != 0 and row % 5 != 0,
    ),
    "range that its own end is not in": (models.Filter(must=[within("to", gt=OPEN)]), lambda _: False),
    "range that its own end is in": (models.Filter(must=[within("to", gte=OPEN)]), lambda row: row % 5 != 0),
    "nested": (
        models.Filter(
            must=[
                models.Filter(should=[matches("name", "tool-3"), models.Filter(must=[matches("tags", "标签0")])]),
                models.Filter(must_not=[matches("project", "default")]),
            ]
        ),
        lambda row: (row == 3 or row % 4 == 0) and row % 3 != 0,
    ),
    "has id": (
        models.Filter(must=[models.HasIdCondition(has_id=[point_id("test", str(row)) for row in (5, 9, 77)])]),
        lambda row: row in {5, 9, 77},
    ),
    "empty": (models.Filter(), lambda _: True),
    "without a field": (
        models.Filter(must=[models.IsEmptyCondition("to")]),
        lambda row: row % 35 == 0,
    ),
    "without a field, or with a value": (
        models.Filter(
            must=[
                models.Filter(
                    should=[
                        models.IsEmptyCondition("to"),
                        matches("tool_type", "mcp"),
                    ]
                )
            ]
        ),
        lambda row: row % 35 == 0 or row % 2 == 1,
    ),
}


async def test_a_filtered_dense_search_finds_exactly_what_brute_force_finds(place):
    count = 120
    name = await filled(place, count)
    question = vectors(1, seed=11)[0]
    cosine = vectors(count) @ question
    for asked, (condition, holds) in FILTERS.items():
        expected = sorted((row for row in range(count) if holds(row)), key=lambda row: -cosine[row])[:15]
        request = models.QueryRequest(query=question.tolist(), using=DENSE, filter=condition, limit=15)
        (hits,) = await place.store.query(name, [request])
        assert rows_of(hits, count) == expected, asked
        assert [hit.score for hit in hits] == pytest.approx([float(cosine[row]) for row in expected], abs=FLOAT16)
        assert await place.store.count(name, condition) == sum(holds(row) for row in range(count)), asked


async def test_lexical_scores_are_the_weights_times_bm25_idf(place):
    count = 40
    name = await filled(place, count)
    question = {1: 1.0, 2: 0.5, 3: 2.0, 1007: 1.0, 999_999: 1.0}
    frequency = {index: sum(index in sparse(row) for row in range(count)) for index in question}
    idf = {index: math.log(1 + (count - n + 0.5) / (n + 0.5)) for index, n in frequency.items()}
    expected = {
        row: sum(weight * idf[index] * sparse(row).get(index, 0.0) for index, weight in question.items())
        for row in range(count)
    }
    request = models.QueryRequest(
        query=models.SparseValues(indices=list(question), values=list(question.values())), using=LEXICAL, limit=count
    )

    (hits,) = await place.store.query(name, [request])

    scores = dict(zip(rows_of(hits, count), (hit.score for hit in hits), strict=True))
    assert scores == pytest.approx(expected, abs=1e-4)
    assert [hit.score for hit in hits] == sorted(scores.values(), reverse=True)


async def test_one_call_answers_dense_and_lexical_queries_in_their_order(place):
    name = await filled(place, 30)
    ids = [point_id("test", str(row)) for row in (4, 8)]
    requests = [
        models.QueryRequest(query=vectors(30)[3].tolist(), using=DENSE, limit=2),
        models.QueryRequest(query=models.SparseValues(indices=[1012], values=[1.0]), using=LEXICAL, limit=5),
        models.QueryRequest(
            query=vectors(30)[3].tolist(), using=DENSE, filter=models.Filter(must=[models.HasIdCondition(has_id=ids)])
        ),
    ]

    dense, lexical, scored = await place.store.query(name, requests)

    assert rows_of(dense, 30)[0] == 3
    assert rows_of(lexical, 30) == [12]
    assert sorted(rows_of(scored, 30)) == [4, 8]


async def test_points_that_are_named_are_scored_and_no_others(place):
    name = await filled(place, 50)
    question = vectors(1, seed=3)[0]
    points = await place.store.query(name, [models.QueryRequest(query=question.tolist(), using=DENSE, limit=50)])
    named = [hit.id for hit in points[0] if rows_of([hit], 50)[0] in {4, 8, 40}]
    among = models.Filter(must=[models.HasIdCondition(has_id=named)])
    words = models.SparseValues(indices=[1004, 1008, 1012], values=[1.0, 1.0, 1.0])
    [everywhere] = await place.store.query(name, [models.QueryRequest(query=words, using=LEXICAL, limit=5)])

    dense, lexical = await place.store.query(
        name,
        [
            models.QueryRequest(query=question.tolist(), using=DENSE, filter=among, limit=5),
            models.QueryRequest(query=words, using=LEXICAL, filter=among, limit=5),
        ],
    )

    cosines = vectors(50) @ question
    assert sorted(rows_of(dense, 50)) == [4, 8, 40]
    assert [hit.score for hit in dense] == pytest.approx(sorted(cosines[[4, 8, 40]], reverse=True), abs=1e-4)
    assert sorted(rows_of(lexical, 50)) == [4, 8]
    assert all(hit in everywhere for hit in lexical), "a word weighs the same among few points as among all"


async def test_a_query_names_no_limit_and_gets_ten(place):
    name = await filled(place, 12)
    (hits,) = await place.store.query(name, [models.QueryRequest(query=vectors(1)[0].tolist(), using=DENSE)])
    assert len(hits) == 10


async def test_offset_and_score_threshold_cut_the_list(place):
    name = await filled(place, 50)
    question = vectors(1, seed=3)[0]
    cosine = np.sort(vectors(50) @ question)[::-1]
    floor = float(cosine[7] + cosine[8]) / 2
    request = models.QueryRequest(query=question.tolist(), using=DENSE, limit=50, offset=3, score_threshold=floor)

    (hits,) = await place.store.query(name, [request])

    assert [hit.score for hit in hits] == pytest.approx(cosine[3:8].tolist(), abs=FLOAT16)


async def test_no_queries_get_no_answers(place):
    assert await place.store.query(await filled(place, 3), []) == []


async def test_an_empty_lexical_query_finds_nothing(place):
    name = await filled(place, 5)
    request = models.QueryRequest(query=models.SparseValues(indices=[], values=[]), using=LEXICAL, limit=5)
    assert await place.store.query(name, [request]) == [[]]


async def test_a_point_without_a_dense_vector_is_found_by_its_words_alone(place):
    name = place.name("tools")
    await place.store.ensure_collection(name, SPEC)
    only = models.PointStruct(id=point_id("only"), vector={LEXICAL: models.SparseValues(indices=[4], values=[1.0])})
    await place.store.upsert(name, [only])
    requests = [
        models.QueryRequest(query=vectors(1)[0].tolist(), using=DENSE),
        models.QueryRequest(query=models.SparseValues(indices=[4], values=[1.0]), using=LEXICAL),
    ]

    dense, lexical = await place.store.query(name, requests)

    assert dense == []
    assert [hit.id for hit in lexical] == [point_id("only")]


async def test_payload_and_vectors_come_back_as_they_were_written(place):
    name = await filled(place, 6)
    wanted = point_id("test", "5")

    (whole,) = await place.store.retrieve(name, [wanted], with_vectors=True)
    (part,) = await place.store.retrieve(name, [wanted], with_payload=["project"], with_vectors=[LEXICAL])
    (bare,) = await place.store.retrieve(name, [wanted], with_payload=False)

    assert whole.payload == payload(5)
    assert whole.vector[DENSE] == pytest.approx(vectors(6)[5].tolist(), abs=FLOAT16)
    assert part.payload == {"project": payload(5)["project"]}
    assert list(part.vector) == [LEXICAL]
    assert dict(zip(part.vector[LEXICAL].indices, part.vector[LEXICAL].values, strict=True)) == pytest.approx(sparse(5))
    assert not bare.payload
    assert not bare.vector


async def test_a_dotted_name_returns_the_field_inside_its_objects(place):
    name = await filled(place, 6)
    for names, wanted in (
        (["deep.er"], {"deep": {"er": payload(5)["deep"]["er"]}}),
        (["deep.er", "deep.list"], {"deep": payload(5)["deep"]}),
        (["deep", "deep.er"], {"deep": payload(5)["deep"]}),
        (["name", "deep.none"], {"name": "tool-5", "deep": {}}),
        (["name.none", "none.er"], {"name": "tool-5"}),
        (["tags.none", "deep.list.none"], {"tags": [], "deep": {"list": []}}),
    ):
        (part,) = await place.store.retrieve(name, [point_id("test", "5")], with_payload=names)
        assert part.payload == wanted, names


async def test_retrieving_leaves_out_what_is_not_there(place):
    name = await filled(place, 3)
    found = await place.store.retrieve(name, [point_id("test", "1"), str(uuid4())])
    assert [point.id for point in found] == [point_id("test", "1")]
    assert await place.store.retrieve(name, []) == []


async def test_scrolling_gives_every_point_once(place):
    count = 350
    name = await filled(place, count)
    condition = models.Filter(must=[matches("tags", "all")])
    for size in (7, 50, 51, 400):
        seen: list[str] = []
        offset = None
        while True:
            page, offset = await place.store.scroll(
                name, condition=condition, limit=size, offset=offset, with_payload=["name"]
            )
            assert len(page) <= size
            seen += [str(record.payload["name"]) for record in page]
            if offset is None:
                break
        assert sorted(seen) == sorted(f"tool-{row}" for row in range(count)), size


async def test_writing_again_replaces_the_whole_point(place):
    name = await filled(place, 3)
    changed = {DENSE: vectors(3)[0].tolist()}

    await place.store.upsert(
        name, [models.PointStruct(id=point_id("test", "1"), vector=changed, payload={"new": "值"})]
    )

    (found,) = await place.store.retrieve(name, [point_id("test", "1")], with_vectors=True)
    assert found.payload == {"new": "值"}
    assert list(found.vector) == [DENSE]
    assert await place.store.count(name) == 3


async def test_insert_only_never_overwrites_a_newer_write(place):
    name = await filled(place, 2)
    backfill = [
        models.PointStruct(id=point_id("test", key), vector={DENSE: vectors(1)[0].tolist()}, payload={"old": key})
        for key in ("1", "new")
    ]

    await place.store.upsert(name, backfill, insert_only=True)

    found = {point.id: point.payload for point in await place.store.retrieve(name, [point.id for point in backfill])}
    assert found == {point_id("test", "1"): payload(1), point_id("test", "new"): {"old": "new"}}


async def test_points_deleted_by_id_are_neither_counted_nor_found(place):
    name = await filled(place, 250)
    gone = [point_id("test", str(row)) for row in range(0, 250, 2)]

    await place.store.delete(name, [*gone, str(uuid4())])

    assert await place.store.count(name) == 125
    request = models.QueryRequest(query=vectors(250)[0].tolist(), using=DENSE, limit=250)
    (hits,) = await place.store.query(name, [request])
    assert {row % 2 for row in rows_of(hits, 250)} == {1}


async def test_a_deletion_by_filter_stays_inside_its_tenant(place):
    name = await filled(place, 60)

    await place.store.delete(name, models.Filter(must=[matches("project", "客厅"), matches("tool_type", "skill")]))

    assert await place.store.count(name) == 50
    assert await place.store.count(name, models.Filter(must=[matches("project", "default")])) == 20


async def test_a_deletion_by_an_empty_filter_is_refused(place):
    name = await filled(place, 3)
    with pytest.raises(VectorStoreRejected):
        await place.store.delete(name, models.Filter())
    assert await place.store.count(name) == 3


async def test_a_collection_is_created_once(place):
    name = place.name("tools")
    assert await place.store.ensure_collection(name, SPEC) is True
    await place.store.upsert(name, points(2))
    assert await place.store.ensure_collection(name, SPEC) is False
    assert await place.store.count(name) == 2
    assert name in await place.store.list_collections()


async def test_a_collection_of_another_dimension_is_a_mismatch(place):
    name = await filled(place, 1)
    with pytest.raises(CollectionMismatch):
        await place.store.ensure_collection(name, CollectionSpec(dim=DIM + 1))


async def test_a_deleted_collection_is_gone_with_its_aliases_and_can_be_made_again(place):
    name = await filled(place, 3)
    await place.store.switch_aliases({place.name("alias"): name})

    assert await place.store.delete_collection(name) is True

    assert await place.store.delete_collection(name) is False
    assert name not in await place.store.list_collections()
    assert await place.store.resolve_alias(place.name("alias")) is None
    assert await place.store.ensure_collection(name, SPEC) is True
    assert await place.store.count(name) == 0


async def test_an_alias_switches_from_one_collection_to_the_next(place):
    blue, green, alias = place.name("blue"), place.name("green"), place.name("alias")
    for name, written in ((blue, points(2)), (green, points(5))):
        await place.store.ensure_collection(name, SPEC)
        await place.store.upsert(name, written)

    assert await place.store.resolve_alias(alias) is None
    await place.store.switch_aliases({alias: blue})
    assert (await place.store.resolve_alias(alias), await place.store.count(alias)) == (blue, 2)
    await place.store.switch_aliases({alias: green, place.name("other"): blue})
    assert (await place.store.resolve_alias(alias), await place.store.count(alias)) == (green, 5)
    assert await place.store.resolve_alias(place.name("other")) == blue


async def test_a_switch_to_a_missing_collection_changes_no_alias(place):
    name, alias = await filled(place, 1), place.name("alias")
    await place.store.switch_aliases({alias: name})

    with pytest.raises(CollectionMissing):
        await place.store.switch_aliases({place.name("another"): name, alias: place.name("nowhere")})

    assert await place.store.resolve_alias(alias) == name
    assert await place.store.resolve_alias(place.name("another")) is None


async def test_an_alias_cannot_take_the_name_of_a_collection_nor_a_collection_that_of_an_alias(place):
    name, alias = await filled(place, 1), place.name("alias")
    await place.store.switch_aliases({alias: name})
    with pytest.raises(VectorStoreRejected):
        await place.store.switch_aliases({name: name})
    with pytest.raises(VectorStoreRejected):
        await place.store.ensure_collection(alias, SPEC)


CALLS = {
    "query": lambda store, name: store.query(name, [models.QueryRequest(query=[0.1] * DIM, using=DENSE)]),
    "retrieve": lambda store, name: store.retrieve(name, [point_id("x")]),
    "scroll": lambda store, name: store.scroll(name),
    "count": lambda store, name: store.count(name),
    "upsert": lambda store, name: store.upsert(name, points(1)),
    "delete by id": lambda store, name: store.delete(name, [point_id("x")]),
    "delete by filter": lambda store, name: store.delete(name, models.Filter(must=[matches("project", "x")])),
}


async def test_an_unknown_collection_is_missing_and_not_empty(place):
    for call in CALLS.values():
        with pytest.raises(CollectionMissing) as raised:
            await call(place.store, place.name("nowhere"))
        assert raised.value.name == place.name("nowhere")


async def test_a_vector_that_cannot_be_stored_is_refused_and_nothing_is_written(place):
    name = place.name("tools")
    await place.store.ensure_collection(name, SPEC)
    for vector in (
        {DENSE: [0.5] * (DIM - 1)},
        {DENSE: [float("nan")] + [0.5] * (DIM - 1)},
        {"other": [0.5] * DIM},
        {LEXICAL: models.SparseValues(indices=[3, 3], values=[1.0, 1.0])},
        {LEXICAL: models.SparseValues(indices=[3], values=[1.0, 2.0])},
    ):
        with pytest.raises(VectorStoreRejected):
            await place.store.upsert(name, [models.PointStruct(id=point_id("bad"), vector=vector)])
    assert await place.store.count(name) == 0


async def test_ids_that_are_no_uuids_are_refused(place):
    name = await filled(place, 1)
    with pytest.raises(VectorStoreRejected):
        await place.store.upsert(name, [models.PointStruct(id=5, vector={DENSE: [0.5] * DIM})])
    with pytest.raises(VectorStoreRejected):
        await place.store.retrieve(name, ["tool-1"])
    with pytest.raises(VectorStoreRejected):
        await place.store.delete(name, "tool-1")


async def test_a_query_that_cannot_be_asked_is_refused(place):
    name = await filled(place, 2)
    for request in (
        models.QueryRequest(query=[0.5] * (DIM + 1), using=DENSE),
        models.QueryRequest(query=[0.5] * DIM, using="nowhere"),
        models.QueryRequest(query=[0.5] * DIM, using=LEXICAL),
        models.QueryRequest(query=[0.5] * DIM, using=DENSE, limit=0),
        models.QueryRequest(query=[0.5] * DIM, using=DENSE, limit=-1),
        models.QueryRequest(query=[float("inf")] * DIM, using=DENSE),
    ):
        with pytest.raises(VectorStoreRejected):
            await place.store.query(name, [request])


async def test_names_that_cannot_be_files_or_parts_of_urls_are_refused(place):
    for name in ("", "..", ".hidden", "a/b", "a b", "客厅", "x" * 201):
        with pytest.raises(VectorStoreRejected):
            await place.store.ensure_collection(name, SPEC)


async def test_a_payload_that_is_no_text_is_refused_and_the_store_works_on(place):
    name = await filled(place, 1)
    broken = models.PointStruct(id=point_id("bad"), vector={DENSE: [0.5] * DIM}, payload={"name": "\ud800"})
    with pytest.raises(VectorStoreRejected):
        await place.store.upsert(name, [broken])
    assert await place.store.count(name) == 1


async def test_a_working_store_is_healthy(place):
    await place.store.flush()
    health = await place.store.health()
    assert (health.ready, health.notices) == (True, ())
    assert "Qdrant" in health.engine


async def test_a_revision_changes_with_every_write_or_is_not_told(place):
    name = await filled(place, 3)
    seen = [place.store.get_revision(name)]
    await place.store.upsert(name, points(1))
    seen.append(place.store.get_revision(name))
    await place.store.delete(name, [point_id("test", "0")])
    seen.append(place.store.get_revision(name))
    await place.store.query(name, [models.QueryRequest(query=[1.0] * DIM, using=DENSE)])
    assert place.store.get_revision(name) == seen[-1]
    await place.store.delete_collection(name)
    await filled(place, 3)
    seen.append(place.store.get_revision(name))
    assert seen == [None] * 4 or (None not in seen and len(set(seen)) == 4)
