"""Relation of a new text to a known one."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.learner.domain.learning.text_relation import TextRelation, compare_texts

_RULE = "POST /api/live/rooms requires the header game-id. Without it the reply is 403."


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (_RULE, _RULE.upper().replace(". ", ".\n\n")),
        ("Timeout is 30 s", "timeout is 30s."),
        ("国家保障妇女享有与男子平等的政治权利。", "国家保障妇女享有与男子平等的政治权利"),
        ("重试：3次", "重试: 3次"),
    ],
)
def test_texts_that_differ_in_spelling_only_are_the_same(known: str, new: str) -> None:
    assert compare_texts(known, new).relation is TextRelation.SAME


@pytest.mark.parametrize(
    ("known", "new", "differences"),
    [
        (_RULE, _RULE.replace("403", "400"), ("-403", "+400")),
        (_RULE, _RULE.replace("requires", "does not require"), ("+not",)),
        (_RULE, _RULE.replace("game-id", "tenant-id"), ("-game-id", "+tenant-id")),
        ("The pool holds at most 10 connections", "The pool holds at most 1.0 connections", ("-10", "+1.0")),
        ("有效期为三个月，过期作废", "有效期为六个月，过期作废", ("-三", "+六")),
        ("用户可以修改订单地址", "用户不可以修改订单地址", ("+不",)),
        ("amount must be > 0", "amount must be < 0", ()),
    ],
)
def test_texts_that_differ_in_what_they_say_are_amended(known: str, new: str, differences: tuple[str, ...]) -> None:
    comparison = compare_texts(known, new)
    assert comparison.relation is TextRelation.AMENDED
    assert set(differences) <= {*comparison.differences} or not differences


def test_one_long_word_takes_no_long_time() -> None:
    started = process_time()
    assert compare_texts("a" * 20_000, "a" * 20_001).relation is TextRelation.AMENDED
    assert process_time() - started < 5, "it took hours when each place in the word was tried"


def test_texts_about_other_things_are_different() -> None:
    assert compare_texts(_RULE, "Rain is told by the hour.").relation is TextRelation.DIFFERENT


@given(st.text(max_size=60))
def test_a_text_is_the_same_as_itself(text: str) -> None:
    assert compare_texts(text, text).relation is TextRelation.SAME
