"""What a query is looked for with."""

import zlib
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.lexical.encoder import LexicalEncoder, weigh_query_terms
from skillbus.relevance.lexical.lexicon import Lexicon, load_lexicon, translate_nothing, unpack_lexicon
from skillbus.relevance.lexical.terms import stem_word

SAID: Mapping[str, Mapping[str, float]] = {"提交": {"commit": 0.8, "submit": 0.6}, "代码": {"code": 0.7, "commit": 0.2}}


def translate(word: str) -> Mapping[str, float]:
    return SAID.get(word, {})


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


def test_words_of_a_chinese_query_are_looked_for_in_english_too_the_surest_translation_counting() -> None:
    terms = weigh_query_terms("提交代码", translate)
    assert {term: terms[term] for term in ("提交", "代码", "commit", "submit", "code")} == pytest.approx(
        {"提交": 1.0, "代码": 1.0, "commit": 0.6, "submit": 0.45, "code": 0.525}
    )


def test_what_the_query_says_itself_is_no_translation() -> None:
    assert weigh_query_terms("提交 commit", translate)["commit"] == 1.0


def test_documents_are_not_translated() -> None:
    assert "commit" not in " ".join(map(str, LexicalEncoder(translate=translate).encode_document("提交").terms))


@pytest.mark.parametrize(
    ("query", "value", "word"),
    [
        ("translate 'good morning' to French", "morning", "translate"),
        ("email a report to anna@example.org", "anna", "report"),
        ("take a screenshot of the whole page at https://a.org/prices", "price", "screenshot"),
        ("weather in 2024", "2024", "weather"),
        ("把“明天开会”翻译成英文", "明天", "翻译"),
        ("查询 12345 的物流", "12345", "物流"),
    ],
)
def test_values_of_arguments_count_half_of_what_words_about_the_tool_count(query: str, value: str, word: str) -> None:
    terms = weigh_query_terms(query, translate_nothing)
    assert (terms[stem_word(value)], terms[stem_word(word)]) == (0.5, 1.0), terms


def test_a_request_that_is_quoted_as_a_whole_is_the_request() -> None:
    assert set(weigh_query_terms('"resize an image"', translate_nothing).values()) == {1.0}


@pytest.mark.parametrize(
    ("word", "terms"),
    [("提交", {"commit", "submit"}), ("天气", {"weather"}), ("翻译", {"translate"}), ("图片", {"image"})],
)
def test_the_lexicon_knows_what_software_is_asked_for(lexicon: Lexicon, word: str, terms: set[str]) -> None:
    assert set(map(stem_word, terms)) <= set(lexicon.translate_word(word))


def test_translations_weigh_between_nothing_and_a_word_that_was_said(lexicon: Lexicon) -> None:
    weights = [weight for word in list(lexicon.row_of)[::97] for weight in lexicon.translate_word(word).values()]
    assert 0 < min(weights) <= max(weights) <= 1


def test_a_word_that_nobody_knows_has_no_translation(lexicon: Lexicon) -> None:
    assert lexicon.translate_word("\U00020000") == {}


def test_a_packed_lexicon_is_read_as_it_was_written() -> None:
    body = "甲\n乙".encode() + b"\0" + b"one\ntwo" + b"\0" + bytes([1, 2])
    packed = zlib.compress(body + np.array([1, 0, 1], "<u2").tobytes() + bytes([255, 51, 102]))
    lexicon = unpack_lexicon(packed)
    assert [lexicon.translate_word(word) for word in "甲乙丙"] == [{"two": 1.0}, {"one": 0.2, "two": 0.4}, {}]


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_any_text_gives_weights_between_nothing_and_one(text: str) -> None:
    assert all(0 < weight <= 1 for weight in weigh_query_terms(text, translate).values())
