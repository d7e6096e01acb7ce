from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skillbus.retriever.domain.context.packer import find_cuts


def cut(text: str) -> list[str]:
    return [text[begin:end] for begin, end in pairwise((0, *find_cuts(text)))]


def test_chinese_and_latin_sentences_end_where_they_do() -> None:
    text = "接口需要 game-id。缺少时返回 400！See 「文档。」 Is it checked? Yes."
    assert cut(text) == ["接口需要 game-id。", "缺少时返回 400！", "See 「文档。」", " Is it checked?", " Yes."]


def test_dots_within_numbers_names_and_abbreviations_end_nothing() -> None:
    assert cut("Use v1.2 of api.live, e.g. for rooms.") == ["Use v1.2 of api.live, e.g. for rooms."]


def test_the_end_of_a_line_is_an_end() -> None:
    assert cut("- one\n- two\r\n\n- three") == ["- one\n", "- two\r\n\n", "- three"]


def test_what_has_no_full_stop_is_cut_at_clauses_and_words_and_at_last_anywhere() -> None:
    words = cut("key: value, " * 100)
    assert len(words) > 1
    assert all(len(part) <= 400 and part.endswith((" ", ",", ":")) for part in words)
    assert [len(part) for part in cut("x" * 1000)] == [400, 400, 200]


@given(st.text(alphabet=st.sampled_from("ab .。\n,，x")) | st.text())
def test_the_parts_are_the_text(text: str) -> None:
    assert "".join(cut(text)) == text
    assert all(cut(text))
