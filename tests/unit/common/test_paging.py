"""Pages and batches that fit into a message."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.common.paging import MESSAGE_BYTES, cut_batches, cut_page, measure_json
from skillbus.contracts.endpoint import HealthCheck


@given(st.lists(st.integers(0, 12)))
def test_a_page_is_the_longest_beginning_that_fits_and_never_empty(sizes: list[int]) -> None:
    page = list(cut_page(sizes, int, max_size=10))
    assert page == sizes[: len(page)]
    assert sum(page) <= 10 or len(page) == 1
    assert len(page) == len(sizes) or sum(sizes[: len(page) + 1]) > 10


@given(st.lists(st.integers(0, 12)), st.one_of(st.none(), st.integers(1, 4)))
def test_batches_hold_all_items_in_order_within_both_limits(sizes: list[int], max_items: int | None) -> None:
    batches = [sizes[batch] for batch in cut_batches(sizes, max_size=10, max_items=max_items)]
    assert list(chain.from_iterable(batches)) == sizes
    assert all(batches)
    assert all(sum(batch) <= 10 or len(batch) == 1 for batch in batches)
    assert all(max_items is None or len(batch) <= max_items for batch in batches)


def test_batches_are_as_few_as_their_order_allows() -> None:
    assert list(cut_batches([4, 4, 4, 4], max_size=8)) == [slice(0, 2), slice(2, 4)]


def test_the_budget_of_a_message_is_the_default() -> None:
    half = MESSAGE_BYTES // 2
    assert len(cut_page([half, half, 1], int)) == 2
    assert len(list(cut_batches([half, half, 1]))) == 2


@pytest.mark.parametrize("text", ["plain", "中文", "\x00"])
def test_a_message_is_measured_in_bytes_of_its_json(text: str) -> None:
    check = HealthCheck(name=text, ready=True)
    assert measure_json(check) == len(check.model_dump_json().encode())
