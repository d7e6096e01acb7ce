"""Which answers are told together, and which wait."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.learner.usage import MAX_ANSWERED, AnsweredRequest, KnowledgeUse, KnowledgeUsed
from skillbus.retriever.domain.usage import UsageNote, UsageQueue, estimate_bytes

BUS_BYTES = 1024 * 1024
NOW = datetime(2026, 1, 1, 12, 30, 1, 123456, tzinfo=UTC)
LARGEST_USE = KnowledgeUse(id="i" * 64, project="p" * 64, version=2**31, position=100)


def note(number: int, project: str = "default", at: float = 0.0, query: str = "song") -> UsageNote:
    return UsageNote(project, AnsweredRequest(request_id=str(number), query=query, at=NOW), at)


def waiting(notes: Sequence[UsageNote], size: int = 1_000) -> UsageQueue:
    held = UsageQueue(size)
    for one in notes:
        held.add_note(one)
    return held


def ids(used: KnowledgeUsed) -> list[int]:
    return [int(one.request_id) for one in used.requests]


def test_answers_of_one_project_are_told_together_in_their_order_the_oldest_note_first() -> None:
    held = waiting([note(number, "team-a" if number % 3 else "team-b", at=number) for number in range(7)])
    assert held.oldest_at == 0
    first = held.take_batch()
    assert (first.project, ids(first)) == ("team-b", [0, 3, 6])
    assert (len(held), held.oldest_at) == (4, 1)
    second = held.take_batch()
    assert (second.project, ids(second)) == ("team-a", [1, 2, 4, 5])
    assert not held


def test_no_more_are_told_together_than_an_event_carries() -> None:
    held = waiting([note(number) for number in range(250)])
    assert [ids(held.take_batch()) for _ in range(3)] == [[*range(100)], [*range(100, 200)], [*range(200, 250)]]


@pytest.mark.parametrize("character", ["\u0001", "😀", "歌", "x"])
def test_the_largest_answers_fit_a_message_and_keep_their_order(character: str) -> None:
    largest = AnsweredRequest(
        request_id="\u0001" * 64,
        scene="s" * 64,
        query=character * 8_000,
        applied=True,
        at=NOW,
        uses=(LARGEST_USE,) * 100,
    )
    assert len(largest.model_dump_json().encode()) <= estimate_bytes(largest) <= MESSAGE_BYTES
    held = waiting([UsageNote("default", largest, 0.0)] * 50)
    told = list[KnowledgeUsed]()
    while held:
        told.append(held.take_batch())
    assert sum(len(used.requests) for used in told) == 50
    assert max(len(used.model_dump_json().encode()) for used in told) <= MESSAGE_BYTES < BUS_BYTES
    assert max(len(used.requests) for used in told) > 1


def test_a_small_answer_does_not_overtake_a_large_one() -> None:
    large = "x" * 8_000
    held = waiting([*(note(number, query=large) for number in range(20)), note(20)])
    assert ids(held.take_batch()) + ids(held.take_batch()) == list(range(21))


def test_as_many_ordinary_answers_go_together_as_an_event_carries() -> None:
    uses = tuple(KnowledgeUse(id="i" * 36, version=1, position=place) for place in range(1, 11))
    ordinary = AnsweredRequest(request_id="r" * 32, query="x" * 300, at=NOW, uses=uses)
    assert len(waiting([UsageNote("default", ordinary, 0.0)] * 200).take_batch().requests) == MAX_ANSWERED


def test_of_too_many_the_oldest_gives_way() -> None:
    held = UsageQueue(3)
    notes = [note(number) for number in range(5)]
    assert [held.add_note(one) for one in notes] == [None, None, None, *notes[:2]]
    assert ids(held.take_batch()) == [2, 3, 4]


def test_half_of_what_is_held_is_many() -> None:
    held = UsageQueue(4)
    assert not held.is_half_full
    held.add_note(note(1))
    assert not held.is_half_full
    held.add_note(note(2))
    assert held.is_half_full
    alone = UsageQueue(1)
    assert not alone.is_half_full
    alone.add_note(note(1))
    assert alone.is_half_full
