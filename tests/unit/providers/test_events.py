"""Server-sent events are decoded the same however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.providers.events import EventDecoder, EventTooLargeError, ServerEvent

LINE = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=8)
EVENT = st.tuples(st.sampled_from(["", "delta", "Ereignis"]), st.lists(LINE, min_size=1, max_size=3))


def decode(content: bytes, cuts: list[int], event_bytes: int = 1_000) -> list[ServerEvent]:
    decoder = EventDecoder(event_bytes)
    places = [0, *sorted({cut % (len(content) + 1) for cut in cuts}), len(content)]
    chunks = [content[begin:end] for begin, end in pairwise(places)]
    return [event for chunk in chunks for event in decoder.decode(chunk)] + decoder.finish()


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENT, max_size=4), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0), max_size=9))
def test_events_survive_any_cut_and_any_line_end(
    events: list[tuple[str, list[str]]], end: str, cuts: list[int]
) -> None:
    lines: list[str] = []
    for name, data in events:
        lines += [": a comment", "retry: 5", *([f"event: {name}"] if name else []), *(f"data: {line}" for line in data)]
        lines.append("")
    content = end.join([*lines, ""]).encode()
    assert decode(content, cuts) == [ServerEvent(name, "\n".join(data).encode()) for name, data in events]


def test_the_last_event_needs_no_empty_line() -> None:
    assert decode(b"data: 1\n\ndata:2", []) == [ServerEvent("", b"1"), ServerEvent("", b"2")]


@pytest.mark.parametrize("content", [b"data: " + b"x" * 101, b"data: 1\n" * 40, b"\n" + b"x" * 101, b": " + b"x" * 101])
def test_an_event_has_a_bound_also_before_it_ends(content: bytes) -> None:
    with pytest.raises(EventTooLargeError):
        decode(content, [*range(0, 99, 7)], event_bytes=100)


def test_many_events_in_one_chunk_are_not_one_large_event() -> None:
    assert len(decode(b"data: 12345678\n\n" * 50, [], event_bytes=100)) == 50


def test_comments_are_counted_as_signs_of_life() -> None:
    decoder = EventDecoder(100)
    assert decoder.decode(b": PROCESSING\n\n: PROC") == []
    assert decoder.comments == 1
