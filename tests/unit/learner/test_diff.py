"""What differs between two texts."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.learner.domain.item.text_diff import diff_texts

SMALL = st.text(alphabet="ab 的。\n", max_size=30)


def said(before: str, after: str) -> str:
    """-removed-, +added+, the same."""
    marks = {"same": "", "removed": "-", "added": "+"}
    return "".join(f"{marks[span.kind]}{span.text}{marks[span.kind]}" for span in diff_texts(before, after))


def removed(before: str, after: str) -> str:
    return "".join(span.text for span in diff_texts(before, after) if span.kind != "added")


def added(before: str, after: str) -> str:
    return "".join(span.text for span in diff_texts(before, after) if span.kind != "removed")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("same", "same", "same"),
        ("", "new", "+new+"),
        ("old", "", "-old-"),
        ("the quick fox", "the slow fox", "the -quick-+slow+ fox"),
        ("返回四百。", "返回五百。", "返回-四-+五+百。"),
        ("header game-id 必填", "header user-id 必填", "header -game-+user+-id 必填"),
        ("one\ntwo\nthree\n", "one\nthree\nfour\n", "one\n-two\n-three\n+four\n+"),
        ("one\ntwo words\n", "zero\none\ntwo signs\n", "+zero\n+one\ntwo -words-+signs+\n"),
        ("状态码 400", "状态码：400", "状态码- -+：+400"),
    ],
)
def test_texts_are_compared_by_words_and_chinese_by_characters(before: str, after: str, shown: str) -> None:
    assert said(before, after) == shown


@given(SMALL, SMALL)
def test_both_texts_can_be_read_from_the_spans(before: str, after: str) -> None:
    assert (removed(before, after), added(before, after)) == (before, after)


@given(SMALL, SMALL)
def test_spans_alternate_and_removed_stands_before_added(before: str, after: str) -> None:
    kinds = [span.kind for span in diff_texts(before, after)]
    behind = {"same": {"removed", "added"}, "removed": {"added", "same"}, "added": {"same"}}
    assert all(after in behind[before] for before, after in pairwise(kinds))


def test_few_edits_of_a_long_text_are_shown_each() -> None:
    letters = random.Random(1).choices("的一是不了人我在有他这为之大来以个中上们", k=32_000)  # noqa: S311
    edited = [("X" if at % 400 == 200 else letter) for at, letter in enumerate(letters)]
    shown = diff_texts("".join(letters), "".join(edited))
    assert sum(span.kind == "removed" for span in shown) == 80
    assert sum(len(span.text) for span in shown if span.kind == "added") == 80


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("的一是不了", "的一是不了"),
        ("a ", "a b "),
        ("\n", "x\n"),
        ("a\nb\n", "b\nc\na\n"),
        ("x y", "x z"),
    ],
)
def test_the_worst_texts_take_a_bounded_cpu_time(one: str, other: str) -> None:
    chance = random.Random(2)  # noqa: S311
    before = "".join(chance.choices(one, k=32_000))
    after = "".join(chance.choices(other, k=32_000))
    start = time.process_time()
    assert len(diff_texts(before, after)) <= 2_000
    assert time.process_time() - start < 1.5, ".2 s of CPU time on a machine of 2026"
    assert (removed(before, after), added(before, after)) == (before, after)
