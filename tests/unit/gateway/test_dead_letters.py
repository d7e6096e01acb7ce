"""Dead letters over HTTP."""

from datetime import UTC, datetime

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    REPLAY_DEAD_LETTER,
    DeadLetter,
    DeadLetterDropped,
    DeadLetterReplayed,
    DeadLetterSelector,
    DeadLettersListed,
    DeadLetterSummary,
    ListDeadLetters,
)

from .fakes import World

SUMMARY = DeadLetterSummary(
    sequence=7,
    stream="SKILLBUS_EVT",
    consumer="learner-uses",
    subject="skillbus.evt.knowledge.used.default",
    error="RuntimeError: the disk is full",
    stored_at=datetime(2026, 1, 1, tzinfo=UTC),
    size_bytes=2,
)
LETTER = DeadLetter(**SUMMARY.model_dump(), body="{}")


async def test_dead_letters_are_listed_shown_replayed_and_dropped() -> None:
    world = World()
    world.caller.on(LIST_DEAD_LETTERS, lambda _: DeadLettersListed(dead_letters=(SUMMARY,), total=1))
    world.caller.on(GET_DEAD_LETTER, lambda _: LETTER)
    world.caller.on(REPLAY_DEAD_LETTER, lambda _: DeadLetterReplayed(sequence=7, subject=SUMMARY.subject))
    world.caller.on(DROP_DEAD_LETTER, lambda _: DeadLetterDropped(sequence=7))
    async with world.client() as client:
        listed = await client.get("/api/dead-letters", params={"consumer": "learner-uses", "after": 3, "limit": 5})
        shown = await client.get("/api/dead-letters/7")
        replayed = await client.post("/api/dead-letters/7/replay")
        dropped = await client.delete("/api/dead-letters/7")
    assert listed.json()["dead_letters"] == [SUMMARY.model_dump(mode="json")]
    assert shown.json() == LETTER.model_dump(mode="json")
    assert (replayed.status_code, replayed.json()["subject"]) == (200, SUMMARY.subject)
    assert dropped.json() == {"sequence": 7}
    assert world.caller.asked == [
        ("list_dead_letters", ListDeadLetters(consumer="learner-uses", after=3, limit=5)),
        *((name, DeadLetterSelector(sequence=7)) for name in ("get_dead_letter", "replay_dead_letter")),
        ("drop_dead_letter", DeadLetterSelector(sequence=7)),
    ]


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/replay"), ("DELETE", "")])
async def test_a_dead_letter_that_does_not_exist_is_not_found(method: str, path: str) -> None:
    world = World()
    for endpoint in (GET_DEAD_LETTER, REPLAY_DEAD_LETTER, DROP_DEAD_LETTER):
        world.caller.on(endpoint, lambda _: RequestError(ErrorCode.NOT_FOUND, "There is no dead letter 7."))
    async with world.client() as client:
        answer = await client.request(method, f"/api/dead-letters/7{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/0", "/x", "?limit=101", "?after=-1", "?consumer=a.b"])
async def test_numbers_and_names_that_cannot_be_are_refused(path: str) -> None:
    world = World()
    async with world.client() as client:
        answer = await client.get(f"/api/dead-letters{path}")
    assert answer.status_code == 400
    assert world.caller.asked == []
