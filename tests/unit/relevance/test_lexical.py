"""The lexical encoder and its tokenizer."""

import subprocess
import sys
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.lexical.encoder import LexicalEncoder, LexicalVector, hash_term
from skillbus.relevance.lexical.terms import MAX_TERM_CHARS, split_terms, stem_word
from skillbus.relevance.text_normalization import normalise_text

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


def score(query: str, document: str) -> float:
    """BM25 without IDF."""
    wanted, found = LexicalEncoder().encode_query(query), LexicalEncoder().encode_document(document)
    weights: dict[int, float] = dict(zip(found.indices.tolist(), found.values.tolist(), strict=True))
    return sum((weights.get(index, 0.0) for index in wanted.indices.tolist()), 0.0)


@pytest.mark.parametrize(
    "written", ["GitCommit", "gitCommit", "git_commit", "git-commit", "GIT COMMITS", "ｇｉｔ commit"]
)
def test_every_way_to_write_a_compound_is_found_by_its_words(written: str) -> None:
    assert {"git", "commit"} <= set(split_terms(written).words)


def test_a_compound_is_found_in_its_joined_form_too() -> None:
    assert "openai" in split_terms("OpenAI").words
    assert score("gitcommit", "git-commit") > 0


def test_letters_and_digits_of_a_word_are_told_apart_and_kept_together() -> None:
    assert split_terms("utf8").words == ["utf8", "utf", "8"]


def test_an_acronym_in_the_plural_is_one_word_and_meets_its_singular() -> None:
    assert split_terms("URLs").words == split_terms("url").words


def test_an_acronym_before_a_word_is_a_word() -> None:
    assert split_terms("HTTPServer").words == ["httpserver", "http", "server"]


def test_chinese_is_cut_into_words_without_the_words_of_request() -> None:
    assert split_terms("请帮我提交代码").words == ["提交", "代码"]


def test_chinese_and_english_in_one_text_both_count() -> None:
    assert split_terms("分析Excel文件").words == ["分析", "excel", "文件"]


def test_chinese_segmented_otherwise_than_in_the_query_is_still_found() -> None:
    assert score("交代", "提交代码") > 0


def test_a_word_is_worth_more_than_a_bigram_that_is_none() -> None:
    assert score("代码", "提交代码") > score("交代", "提交代码") > 0


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("queries", "query"),
        ("files", "file"),
        ("commits", "commit"),
        ("status", "status"),
        ("translating", "translate"),
        ("committed", "commit"),
    ],
)
def test_forms_of_an_english_word_meet(plural: str, singular: str) -> None:
    assert stem_word(plural) == stem_word(singular)


def test_words_beside_a_text_count_less_than_those_of_the_text() -> None:
    beside = LexicalEncoder().encode_document("weather", "forecast")
    weight = dict(zip(beside.indices.tolist(), beside.values.tolist(), strict=True))
    assert 0 < weight[hash_term(stem_word("forecast"))] < weight[hash_term(stem_word("weather"))]


def test_a_text_that_is_longer_by_what_is_beside_it_makes_each_word_count_less() -> None:
    alone, beside = (
        LexicalEncoder().encode_document("weather"),
        LexicalEncoder().encode_document("weather", "a b c d e f"),
    )
    assert beside.values.max() < alone.values.max()


def test_a_term_said_often_weighs_more_but_never_k1_plus_one_times_as_much() -> None:
    once, often = LexicalEncoder().encode_document("excel"), LexicalEncoder().encode_document("excel " * 500)
    assert once.values[0] < often.values[0] < LexicalEncoder().k1 + 1


def test_a_term_in_a_long_document_weighs_less_than_in_a_short_one() -> None:
    assert score("excel", "excel") > score("excel", "excel " + " ".join(f"word{n}" for n in range(50)))


def test_a_document_of_average_length_has_the_weight_of_the_formula() -> None:
    document = LexicalEncoder(k1=1.2, b=0.75, average_terms=2).encode_document("excel table")
    assert document.values.tolist() == pytest.approx([1.0, 1.0])


def test_a_query_weighs_each_of_its_terms_one() -> None:
    query = LexicalEncoder().encode_query("excel excel table")
    assert query.values.tolist() == [1.0, 1.0]


def test_a_text_without_terms_has_an_empty_vector() -> None:
    for text in ("", " \n", "the", "请", "!?，。", "\x00"):
        assert LexicalEncoder().encode_query(text).terms == ()


def test_vectors_are_the_same_in_another_process() -> None:
    """skill-vector-retrieval.md § 生成Skills向量: identical vectors for identical inputs."""
    text = "自动分析Git改动并生成conventional commit信息"
    script = (
        "import sys; from skillbus.relevance.lexical.encoder import LexicalEncoder as L;"
        "v = L().encode_document(sys.argv[1]); print(v.indices.tolist(), v.values.tolist())"
    )
    other = subprocess.run([sys.executable, "-c", script, text], capture_output=True, text=True, check=True).stdout
    vector = LexicalEncoder().encode_document(text)
    assert other.strip() == f"{vector.indices.tolist()} {vector.values.tolist()}"


def test_an_index_is_the_digest_that_b2sum_prints() -> None:
    assert hash_term("git") == int.from_bytes(bytes.fromhex("1788d61b"), "little")


@given(ANY_TEXT)
def test_any_text_gives_distinct_ascending_indices_and_positive_weights(text: str) -> None:
    for vector in (LexicalEncoder().encode_document(text), LexicalEncoder().encode_query(text)):
        assert_well_formed(vector)


def assert_well_formed(vector: LexicalVector) -> None:
    assert vector.indices.dtype == np.uint32
    assert vector.values.dtype == np.float32
    assert len(vector.indices) == len(vector.values) == len(vector.terms)
    assert np.all(np.diff(vector.indices.astype(np.int64)) > 0)
    assert np.all(vector.values > 0)
    assert np.all(np.isfinite(vector.values))


@given(ANY_TEXT)
def test_terms_are_lower_case_bounded_and_encodable(text: str) -> None:
    for term in split_terms(text).words:
        assert term
        assert len(term.encode()) <= 4 * MAX_TERM_CHARS


@given(ANY_TEXT)
def test_a_document_is_found_by_its_own_text(text: str) -> None:
    assert score(text, text) > 0 or split_terms(text).words == split_terms(text).pairs == []


@given(ANY_TEXT)
def test_a_normalised_text_is_encodable_bounded_and_holds_no_nul(text: str) -> None:
    tame = normalise_text(text, 100)
    assert len(tame) <= 100
    assert "\x00" not in tame
    tame.encode()


@given(st.text(max_size=50))
def test_normal_texts_are_only_brought_to_nfkc(text: str) -> None:
    if "\x00" not in text and len(text) < 20:
        assert normalise_text(text, 500) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 100_000,
        "a\u0301\u0316" * 50_000,
        "a" + "\u0301\u0316" * 50_000,
        "\ufdfa" * 100_000,
        "aB" * 50_000,
        "a-" * 50_000,
        "1a" * 50_000,
        "分" * 100_000,
        "龘𠀀" * 50_000,
        "\x00" * 100_000,
        "\ud800" * 100_000,
        "─" * 100_000,
    ],
    ids=lambda text: ascii(text[:3]),
)
def test_hostile_texts_cost_milliseconds(hostile: str) -> None:
    """A tenth of a second is the bound for a busy machine; without the guards the slowest of them takes six seconds."""
    started = time.process_time()
    assert_well_formed(LexicalEncoder().encode_document(hostile))
    assert time.process_time() - started < 0.1


def test_a_length_is_held_against_that_of_its_kind() -> None:
    encoder, text = LexicalEncoder(), "a long text about databases and their many indexes and logs"
    short, long = encoder.with_average_terms(3), encoder.with_average_terms(300)
    assert encoder.with_average_terms(None) is encoder
    assert short.encode_document(text).values.sum() < encoder.encode_document(text).values.sum()
    assert long.encode_document(text).values.sum() > encoder.encode_document(text).values.sum()
