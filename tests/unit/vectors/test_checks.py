import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.vectors import (
    DENSE,
    LEXICAL,
    CollectionMissing,
    CollectionSpec,
    VectorStoreError,
    VectorStoreRejected,
    VectorStoreUnavailable,
    checks,
    models,
    point_id,
)


@given(st.lists(st.floats(width=32), min_size=1, max_size=64))
def test_a_dense_vector_passes_exactly_when_all_its_numbers_are_finite(numbers):
    if all(math.isfinite(number) for number in numbers):
        checks.check_vector(DENSE, numbers)
    else:
        with pytest.raises(VectorStoreRejected):
            checks.check_vector(DENSE, numbers)


@pytest.mark.parametrize("vector", [None, "text", [[1.0]], ["1.0"], models.SparseValues(indices=[1], values=[1.0])])
def test_what_is_no_list_of_numbers_is_no_dense_vector(vector):
    with pytest.raises(VectorStoreRejected):
        checks.check_vector(DENSE, vector)


@pytest.mark.parametrize("index", [-1, 2**32])
def test_a_sparse_index_outside_32_bits_is_refused(index):
    with pytest.raises(VectorStoreRejected):
        checks.check_vector(LEXICAL, models.SparseValues(indices=[index], values=[1.0]))
    checks.check_vector(LEXICAL, models.SparseValues(indices=[0, 2**32 - 1], values=[1.0, 1.0]))


def test_an_empty_sparse_vector_is_a_sparse_vector():
    checks.check_vector(LEXICAL, models.SparseValues(indices=[], values=[]))


@pytest.mark.parametrize("payload", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}])
def test_a_payload_that_json_cannot_say_is_refused(payload):
    with pytest.raises(VectorStoreRejected):
        checks.check_points([models.PointStruct(id=point_id("a"), vector={}, payload=payload)])


def test_a_payload_that_never_ends_is_refused():
    payload: dict[str, object] = {}
    payload["itself"] = payload
    point = models.PointStruct(id=point_id("a"), vector={}, payload=payload)
    with pytest.raises(VectorStoreRejected):
        checks.check_points([point])


@pytest.mark.parametrize("dim", [0, -1, 65_537])
def test_a_dimension_that_no_engine_takes_is_refused(dim):
    with pytest.raises(VectorStoreRejected):
        checks.check_spec(CollectionSpec(dim=dim))


@pytest.mark.parametrize(("limit", "offset"), [(0, None), (-1, None), (1, "not-a-uuid")])
def test_a_page_that_cannot_be_read_is_refused(limit, offset):
    with pytest.raises(VectorStoreRejected):
        checks.check_page(limit, offset)


def test_a_switch_names_the_target_that_is_missing():
    with pytest.raises(CollectionMissing) as raised:
        checks.check_switch({"tools": "green"}, ["blue"])
    assert raised.value.name == "green"


def test_the_same_key_makes_the_same_id_and_another_split_of_it_another():
    assert point_id("default", "tool", "git") == point_id("default", "tool", "git")
    assert (
        len(
            {
                point_id("a", "bc"),
                point_id("ab", "c"),
                point_id("abc"),
                point_id("a", "b", "c"),
                point_id("a", "bc", ""),
            }
        )
        == 5
    )
    checks.check_ids([point_id("客厅", "")])


def test_unavailable_and_rejected_are_told_apart():
    assert issubclass(CollectionMissing, VectorStoreRejected)
    assert not issubclass(VectorStoreUnavailable, VectorStoreRejected)
    assert issubclass(VectorStoreUnavailable, VectorStoreError)


def test_unavailable_says_that_the_connection_failed():
    """skill-vector-retrieval.md § LanceDB连接失败, in the words that stand for Qdrant"""
    assert str(VectorStoreUnavailable("refused")) == "Qdrant connection failed: refused"
