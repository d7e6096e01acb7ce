"""Cursors of lists come back as the position that they encode, or are refused."""

from datetime import UTC, datetime

import pytest

from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.item.listing import decode_cursor, encode_cursor
from skillbus.learner.domain.item.ports import ListPosition


@pytest.mark.parametrize("year", [1, 1969, 2026, 9999])
def test_a_position_comes_back_from_its_cursor(year: int) -> None:
    position = ListPosition(datetime(year, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), "01890000-0000-7000-8000-000000000000")
    assert decode_cursor("after", encode_cursor(position)) == position


def test_no_cursor_is_the_first_page() -> None:
    assert decode_cursor("after", None) is None


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.", ".a", "9" * 18 + ".a", "-" + "9" * 18 + ".a", "1.a'b", "１.a"])
def test_an_invented_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UnfitError, match="`after` is not the `next`"):
        decode_cursor("after", cursor)
    with pytest.raises(UnfitError, match="`before` is not the `previous`"):
        decode_cursor("before", cursor)
