import math
from collections.abc import Sequence

import numpy as np
import pytest

from skillbus.evaluation.cases import Case, Kind
from skillbus.evaluation.measures import Measure, compute_measures, estimate_mean


def case(*wants: str, kind: Kind = "multi") -> Case:
    """A letter a tool; several letters are tools that do the same."""
    return Case("request", "en", kind, tuple(frozenset(want) for want in wants), None)


def values(answer: Sequence[str], of: Case) -> dict[Measure, float]:
    return {measure: float(row[0]) for measure, row in compute_measures([list(answer)], [of]).items()}


def test_what_fits_in_the_first_place_is_worth_all() -> None:
    found = values("a", case("a", kind="single"))
    assert math.isnan(found.pop(Measure.SET_RECALL))
    assert set(found.values()) == {1.0}


def test_what_is_not_found_is_worth_nothing() -> None:
    assert set(values("xyz", case("a", "b")).values()) == {0.0}
    assert set(values("", case("a", "b")).values()) == {0.0}


def test_each_measure_is_as_its_definition_says() -> None:
    found = values("xaxxxxb", case("a", "b", "c"))
    assert found == pytest.approx(
        {
            Measure.HIT_AT_1: 0.0,
            Measure.RECALL_AT_5: 1 / 3,
            Measure.RECALL_AT_10: 2 / 3,
            Measure.NDCG_AT_10: (1 / math.log2(3) + 1 / math.log2(8)) / (1 + 1 / math.log2(3) + 1 / 2),
            Measure.MRR: 1 / 2,
            Measure.SET_RECALL: 0.0,
        }
    )


def test_a_set_is_whole_when_all_of_it_is_among_the_first_ten() -> None:
    assert values("xxxxxxxxab", case("a", "b"))[Measure.SET_RECALL] == 1.0
    assert values("xxxxxxxxxab", case("a", "b"))[Measure.SET_RECALL] == 0.0


def test_of_tools_that_do_the_same_the_second_gains_nothing() -> None:
    twice, once = values("abxxx", case("ab", "c")), values("axxxx", case("ab", "c"))
    assert twice == once
    assert values("bc", case("ab", "c"))[Measure.RECALL_AT_5] == 1.0


def test_more_is_wanted_than_is_asked_for_and_the_best_answer_still_has_the_best_gain() -> None:
    letters = "abcdefghijklmno"
    found = values(letters[:10], case(*letters))
    assert found[Measure.NDCG_AT_10] == pytest.approx(1.0)
    assert found[Measure.RECALL_AT_10] == pytest.approx(10 / 15)


def test_requests_that_nothing_fits_have_no_measure() -> None:
    assert all(math.isnan(value) for value in values("abc", case(kind="no_match")).values())


def test_an_interval_holds_the_mean_and_shrinks_with_more_requests() -> None:
    dice = np.random.default_rng(3)
    few, many = (estimate_mean((dice.random(count) < 0.3).astype(np.float64)) for count in (50, 5_000))
    for estimate in (few, many):
        assert 0 <= estimate.low <= estimate.mean <= estimate.high <= 1
    assert many.high - many.low == pytest.approx(2 * 1.96 * math.sqrt(0.3 * 0.7 / 5_000), rel=0.1)
    assert few.high - few.low > 5 * (many.high - many.low)


def test_an_interval_is_the_same_in_every_run() -> None:
    values_ = np.arange(20.0)
    assert estimate_mean(values_) == estimate_mean(values_)
