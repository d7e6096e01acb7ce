"""Requests for several things, cut into sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.sentences import MAX_SENTENCES, split_sentences
from skillbus.retriever.domain.explanation import find_parts


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        (
            "What is the weather in Paris tomorrow? Send the forecast to my wife by email.",
            ("What is the weather in Paris tomorrow?", "Send the forecast to my wife by email."),
        ),
        ("帮我查一下明天北京的天气。然后把结果发邮件给小王！", ("帮我查一下明天北京的天气", "然后把结果发邮件给小王")),
        ("Hi! What is the weather in Paris tomorrow?", ()),
        ("What is the weather in Paris tomorrow?", ()),
        ("version 1.2.3 of example.org is the latest one", ()),
        ("", ()),
    ],
)
def test_sentences_that_say_something_are_told_apart(request_: str, parts: tuple[str, ...]) -> None:
    assert split_sentences(request_) == parts


@given(st.text(max_size=2_000))
def test_there_are_two_to_four_sentences_or_none(request_: str) -> None:
    parts = split_sentences(request_)
    assert len(parts) in {0, *range(2, MAX_SENTENCES + 1)}
    assert all(part in request_ for part in parts)


@pytest.mark.parametrize(
    ("term", "text", "holds"),
    [
        ("commit", "gitCommit", True),
        ("commit", "git_committing", True),
        ("queri", "SQL query", True),
        ("art", "start", False),
        ("提交", "把代码提交到仓库", True),
        ("提交", "submit", False),
    ],
)
def test_a_part_holds_a_term_where_a_word_of_it_begins_so(term: str, text: str, holds: bool) -> None:
    assert find_parts((term,), {"name": text}) == (("name",) if holds else ())
