import pytest
from qdrant_client import models

from skillbus.vectors import DENSE, QueryUnsupported, VectorStoreRejected, VectorStoreUnavailable, point_id
from skillbus.vectors.edge.calls import call_edge
from skillbus.vectors.edge.models import DEFAULT_LIMIT, translate_filter, translate_query

FIELD = models.FieldCondition(key="tags", match=models.MatchValue(value="a"))


def asked(**changes: object) -> models.QueryRequest:
    return models.QueryRequest(query=[1.0, 2.0], using=DENSE, **changes)


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        (models.IsNullCondition(is_null=models.PayloadField(key="a")), "IsNullCondition"),
        (models.HasVectorCondition(has_vector=DENSE), "HasVectorCondition"),
        (models.NestedCondition(nested=models.Nested(key="a", filter=models.Filter())), "NestedCondition"),
        (models.FieldCondition(key="a", match=models.MatchText(text="b")), "MatchText"),
        (models.FieldCondition(key="a", match=models.MatchExcept(**{"except": ["b"]})), "MatchExcept"),
        (models.FieldCondition(key="a", range=models.DatetimeRange(gt="2026-01-01T00:00:00Z")), "DatetimeRange"),
        (models.FieldCondition(key="a", values_count=models.ValuesCount(gt=1)), "values_count"),
        (models.FieldCondition(key="a", is_null=True), "is_null"),
        (models.Filter(min_should=models.MinShould(conditions=[FIELD], min_count=1)), "min_should"),
    ],
)
@pytest.mark.parametrize("clause", ["must", "should", "must_not"])
def test_every_condition_without_a_translation_is_named(clause, condition, part):
    nested = models.Filter(must=[models.Filter(**{clause: [FIELD, condition]})])
    with pytest.raises(QueryUnsupported, match=part):
        translate_filter(nested)


def test_a_condition_that_asks_nothing_or_two_things_is_refused():
    for condition in (
        models.FieldCondition(key="a"),
        models.FieldCondition(key="a", match=models.MatchValue(value=1), range=models.Range(gt=1)),
    ):
        with pytest.raises(VectorStoreRejected):
            translate_filter(models.Filter(must=[condition]))


def test_a_filter_keeps_each_condition_in_its_clause():
    translated = translate_filter(
        models.Filter(
            must=FIELD,
            should=[FIELD, models.HasIdCondition(has_id=[point_id("a")])],
            must_not=[models.Filter(should=[FIELD])],
        )
    )
    assert [len(translated.must), len(translated.should), len(translated.must_not)] == [1, 2, 1]
    assert translated.must[0].match.value == "a"


def test_no_filter_stays_none():
    assert translate_filter(None) is None


def test_an_id_in_a_filter_must_be_a_uuid():
    with pytest.raises(VectorStoreRejected):
        translate_filter(models.Filter(must=[models.HasIdCondition(has_id=[5])]))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"prefetch": models.Prefetch(query=[1.0, 2.0])}, "prefetch"),
        ({"lookup_from": models.LookupLocation(collection="a")}, "lookup_from"),
        ({"shard_key": "a"}, "shard_key"),
        ({"params": models.SearchParams(indexed_only=True)}, "indexed_only"),
        ({"params": models.SearchParams(quantization=models.QuantizationSearchParams(rescore=True))}, "quantization"),
    ],
)
def test_every_part_of_a_query_without_a_translation_is_named(changes, part):
    with pytest.raises(QueryUnsupported, match=part):
        translate_query(asked(**changes), 2)


def test_a_query_scans_exactly_and_gets_ten_unless_it_says_otherwise():
    query = translate_query(asked(params=models.SearchParams(hnsw_ef=64)), 2)
    assert query.params.exact is True
    assert query.limit == DEFAULT_LIMIT == 10
    assert translate_query(asked(limit=3), 2).limit == 3


def test_long_vectors_are_scanned_quantized_and_scored_by_their_own_unless_few_points_are_asked():
    long = models.QueryRequest(query=[0.1] * 256, using=DENSE)
    assert translate_query(long, 256).params.quantization.rescore is True
    assert translate_query(long, 256, exact=True).params.exact is True


def test_a_query_of_another_dimension_is_refused():
    with pytest.raises(VectorStoreRejected):
        translate_query(asked(), 3)


class PanicException(BaseException):
    """As PyO3 names what a Rust panic becomes."""


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("bad id"), VectorStoreRejected),
        (OverflowError("negative"), VectorStoreRejected),
        (Exception("Vector dimension error: expected dim: 4, got 2"), VectorStoreRejected),
        (Exception("Service runtime error: no space left on device"), VectorStoreUnavailable),
        (PanicException("index out of bounds"), VectorStoreUnavailable),
    ],
)
def test_what_the_engine_raises_is_the_callers_fault_or_the_engines(raised, error):
    def call() -> None:
        raise raised

    with pytest.raises(error) as caught:
        call_edge(call)
    assert type(caught.value) is error


def test_an_interrupt_is_no_failure_of_the_engine():
    def call() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_edge(call)
