"""Answers made to fit a message."""

import pytest
from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.domain.tool_answer import (
    CONTENT_BYTES,
    STRUCTURED_BYTES,
    TEXT_BYTES,
    ToolAnswer,
    bound_answer,
    cut_text,
)


def text(said: str) -> JsonValue:
    return {"type": "text", "text": said}


def test_a_small_answer_stays_as_it_is() -> None:
    parts: list[JsonValue] = [text("one"), {"type": "image", "data": "…"}, text("two"), 7]
    assert bound_answer(parts, {"a": 1}) == ToolAnswer(content=tuple(parts), structured={"a": 1})


def test_a_large_part_is_left_out_and_told() -> None:
    answer = bound_answer([{"type": "image", "data": "x" * CONTENT_BYTES}, text("two")])
    assert (answer.content, answer.truncated) == ((text("two"),), True)


def test_a_long_text_is_cut_and_leaves_room_for_the_parts_after_it() -> None:
    answer = bound_answer([text("a" * CONTENT_BYTES), text("end"), {"type": "image", "data": "x" * CONTENT_BYTES}])
    (cut, end) = (str(part["text"]) for part in answer.content if isinstance(part, dict))
    assert (set(cut), end, answer.truncated) == ({"a"}, "end", True)
    assert 0.99 * TEXT_BYTES < len(cut) < TEXT_BYTES


def test_a_large_structured_answer_is_left_out_and_told() -> None:
    answer = bound_answer([], {"rows": "x" * STRUCTURED_BYTES})
    assert (answer.structured, answer.truncated) == (None, True)


@pytest.mark.parametrize("character", ["a", "中", "\x01", '"', "😀"])
def test_the_largest_answer_fits_a_message_whatever_its_characters(character: str) -> None:
    answer = bound_answer([text(character * 60_000)] * 40, {"a": character * 20_000}, is_error=True)
    assert answer.truncated
    assert answer.is_error
    assert len(to_json([answer.content, answer.structured])) < 900_000


def test_a_cut_keeps_as_much_as_fits() -> None:
    assert 9_000 < len(to_json(cut_text("中" * 10_000, 10_000))) <= 10_000
