"""Characters that people do not see, and Chinese ones."""

import pytest

from skillbus.common.characters import HAN_CHARACTER, find_hidden, has_invisible, remove_hidden


@pytest.mark.parametrize("text", ["中", "a中b", "豈", "\U00020000"])
def test_chinese_characters_are_recognised(text: str) -> None:
    assert HAN_CHARACTER.search(text)


@pytest.mark.parametrize("text", ["", "abc", "。", "ひらがな", "é"])
def test_other_scripts_and_punctuation_are_not_chinese(text: str) -> None:
    assert not HAN_CHARACTER.search(text)


@pytest.mark.parametrize(
    "text",
    ["a\u200bb", "a\u202eb", "a\U000e0041b", "\u3164", "a\x00b", "a\x1bb", "\u200dx", "x\ufeff"],
)
def test_hidden_characters_are_found_and_removed(text: str) -> None:
    assert find_hidden(text)
    assert not find_hidden(remove_hidden(text))


@pytest.mark.parametrize("text", ["a\n\tb", "👩\u200d💻", "می\u200cخواهم", "葛\U000e0100", "\ufeffBOM"])
def test_characters_that_scripts_and_emoji_need_are_not_hidden(text: str) -> None:
    assert find_hidden(text) == []


@pytest.mark.parametrize("name", ["a\nb", "a\u200db", "a\u2028b", "\ud800", "a\x7fb"])
def test_names_hold_no_invisible_character(name: str) -> None:
    assert has_invisible(name)


@pytest.mark.parametrize("name", ["plain", "中文 name", "é", "👩"])
def test_visible_names_are_accepted(name: str) -> None:
    assert not has_invisible(name)
