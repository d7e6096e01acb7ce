import pytest

from skillbus.vectors import DENSE, VectorStoreRejected, VectorStoreUnavailable, models, point_id
from skillbus.vectors.edge.calls import call_edge
from skillbus.vectors.edge.models import DEFAULT_LIMIT, translate_filter, translate_query

FIELD = models.FieldCondition(key="tags", match=models.MatchValue(value="a"))


def asked(**changes: object) -> models.QueryRequest:
    return models.QueryRequest(query=[1.0, 2.0], using=DENSE, **changes)


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
            must=[FIELD],
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


def test_a_query_scans_exactly_and_gets_ten_unless_it_says_otherwise():
    query = translate_query(asked(), 2)
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
