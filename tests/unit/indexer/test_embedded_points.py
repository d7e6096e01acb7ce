"""Texts go to the embedder in requests whose replies a message can hold."""

import pytest

from skillbus.indexer.adapters.bus_embedder import _parts


def parts(lengths: list[int]) -> list[list[int]]:
    return [lengths[part] for part in _parts(lengths)]


@pytest.mark.parametrize("lengths", [[10], [100] * 32, [2_000] * 32, [65_536], [60_000, 5_536]])
def test_texts_go_together_unless_they_are_long(lengths: list[int]) -> None:
    assert parts(lengths) == [lengths]


def test_long_texts_are_parted_in_their_order_and_none_is_left_out() -> None:
    assert parts([40_000, 20_000, 10_000, 60_000, 70_000, 1]) == [[40_000, 20_000], [10_000], [60_000], [70_000], [1]]


def test_many_texts_are_parted() -> None:
    assert [len(part) for part in parts([1] * 100)] == [48, 48, 4]
