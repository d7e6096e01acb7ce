"""Folding of text: what does not matter to names is dropped, positions are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.queryir.writing import fold_name, fold_text, is_inside_word


@pytest.mark.parametrize(
    ("original", "folded"),
    [
        ("打開臥室的冷氣", "打开卧室的冷气"),
        ("打开 卧室 的 ＴＶ", "打开卧室的tv"),
        ("  Living\u3000  Room \n", "living room"),
        ("廚房\u200b裡的燈", "厨房里的灯"),
        ("Cafe\u0301 ℃", "café °c"),
        ("", ""),
    ],
)
def test_width_case_script_and_white_space_do_not_matter(original: str, folded: str) -> None:
    assert fold_text(original).text == folded
    assert fold_name(original) == folded


def test_a_part_of_the_folded_text_has_its_original_spelling() -> None:
    text = fold_text("打開 Living  Room 的檯燈")
    room = text.text.index("living room")
    lamp = text.text.index("台灯")
    assert text.quote_original(room, room + len("living room")) == "Living  Room"
    assert text.quote_original(lamp, lamp + 2) == "檯燈"
    assert text.quote_original(3, 3) == ""


def test_a_position_between_letters_or_between_digits_is_inside_a_word() -> None:
    assert is_inside_word("tvs", 2)
    assert is_inside_word("20", 1)
    assert not is_inside_word("tv20", 2)
    assert not is_inside_word("开tv", 1)
    assert not is_inside_word("tv", 0)


@given(st.text(max_size=60))
def test_any_text_folds_to_the_same_form_as_a_name_and_keeps_its_positions(original: str) -> None:
    folded = fold_text(original)
    assert fold_name(original) == folded.text
    assert len(folded.starts) == len(folded.ends) == len(folded.text)
    assert all(0 <= start < end <= len(original) for start, end in zip(folded.starts, folded.ends, strict=True))
    assert list(folded.starts) == sorted(folded.starts)
