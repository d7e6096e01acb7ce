"""Specification rows and test markers agree (docs/traceability.md)."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from .traceability import PAGE, find_markers, load_rows, render_page

ROWS = load_rows()


@pytest.fixture(scope="module")
def markers() -> Mapping[str, Sequence[str]]:
    """The tests that carry each marker; parsing all tests takes a second, which collection does without."""
    return find_markers()


def test_every_row_of_the_specifications_is_listed_once() -> None:
    assert len(ROWS) == 152
    assert not [marker for marker, count in Counter(row.marker for row in ROWS).items() if count > 1]
    assert {row.status for row in ROWS} <= {"covered", "different", "to do"}


def test_every_marker_names_a_row(markers: Mapping[str, Sequence[str]]) -> None:
    assert not markers.keys() - {row.marker for row in ROWS}


def test_what_is_covered_has_a_test_or_a_benchmark(markers: Mapping[str, Sequence[str]]) -> None:
    assert not [row.marker for row in ROWS if row.status == "covered" and not markers.get(row.marker) and not row.note]


def test_what_is_different_or_still_to_do_says_why_or_where() -> None:
    assert not [row.marker for row in ROWS if row.status != "covered" and not row.note]


def test_the_page_is_up_to_date(markers: Mapping[str, Sequence[str]]) -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(ROWS, markers), "run `make documents`"
