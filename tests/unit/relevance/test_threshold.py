"""What the best hit must reach."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.score import compute_least_evidence

FITS = st.floats(0.01, 0.99)


@given(FITS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_tools_never_need_less(fits: float, some: int, more: int) -> None:
    fewer, many = sorted((some, more))
    assert compute_least_evidence(fits, fewer) <= compute_least_evidence(fits, many)


@pytest.mark.parametrize("tools", [1_500, 10_000, 1_000_000])
def test_among_many_it_is_the_score_that_was_set(tools: int) -> None:
    assert compute_least_evidence(0.5, tools) == 0.0


@given(st.integers(0, 10**6))
def test_a_score_of_nothing_lets_everything_pass(tools: int) -> None:
    assert compute_least_evidence(0.0, tools) == -math.inf
