"""Dead letters on a real nats-server: listed, shown, replayed and dropped."""

import pytest
from nats.aio.msg import Msg

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.dead_letter_store import DeadLetters
from skillbus.common.bus.events import publish_event, store_dead_letter
from skillbus.common.bus.objects import open_object_store
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.dead_letters import MAX_BODY_CHARACTERS, DeadLetterSelector, ListDeadLetters
from skillbus.contracts.indexer.skills import SKILL_INSTALLED, SkillChanged
from skillbus.contracts.resources import (
    DEAD_LETTERS,
    EVENTS,
    INDEXER_CHANGES,
    INDEXER_UPLOADS,
    LEARNER_USES,
    UPLOADS,
    Consumer,
)

SUBJECT = SKILL_INSTALLED.subject("git-commit")


async def give_up(bus: Bus, consumer: Consumer, count: int = 1) -> None:
    """Fetch messages of a consumer and store them as dead letters, as the consumer does after its last try."""
    subscription = await bus.jetstream.pull_subscribe_bind(consumer.name, consumer.stream)
    messages: list[Msg] = await subscription.fetch(count, timeout=5)
    for message in messages:
        await store_dead_letter(bus, consumer, message, RuntimeError("it failed"))
        await message.term()


async def kill_events(bus: Bus, count: int) -> None:
    for number in range(count):
        fact = SkillChanged(project="default", name="git-commit", digest=str(number))
        await publish_event(
            bus, SKILL_INSTALLED, fact, identity="git-commit", message_id=f"m{number}", project="default"
        )
    await give_up(bus, INDEXER_CHANGES, count)


def at(sequence: int) -> DeadLetterSelector:
    return DeadLetterSelector(sequence=sequence)


async def messages_in(bus: Bus, stream: str) -> int:
    return (await bus.jetstream.stream_info(stream)).state.messages


async def test_there_are_none_at_first(bus: Bus) -> None:
    listed = await DeadLetters(bus).list_page(ListDeadLetters())
    assert (listed.dead_letters, listed.total, listed.next) == ((), 0, None)


async def test_they_are_listed_page_by_page_and_gaps_are_skipped(bus: Bus) -> None:
    letters = DeadLetters(bus)
    await kill_events(bus, 5)
    await letters.drop(at(2))
    first = await letters.list_page(ListDeadLetters(limit=2))
    last = await letters.list_page(ListDeadLetters(limit=2, after=first.next or 0))
    assert [letter.sequence for letter in (*first.dead_letters, *last.dead_letters)] == [1, 3, 4, 5]
    assert (first.total, first.next, last.next) == (4, 3, None)
    assert {
        (letter.stream, letter.consumer, letter.subject, letter.project, letter.error) for letter in first.dead_letters
    } == {(EVENTS.name, INDEXER_CHANGES.name, SUBJECT, "default", "RuntimeError: it failed")}


async def test_those_of_one_consumer_are_listed_alone(bus: Bus) -> None:
    letters = DeadLetters(bus)
    await kill_events(bus, 2)
    assert (await letters.list_page(ListDeadLetters(consumer=INDEXER_CHANGES.name))).total == 2
    others = await letters.list_page(ListDeadLetters(consumer=LEARNER_USES.name))
    assert (others.dead_letters, others.total) == ((), 0)


async def test_one_is_shown_with_its_event(bus: Bus) -> None:
    await kill_events(bus, 1)
    letter = await DeadLetters(bus).get(at(1))
    assert SkillChanged.model_validate_json(letter.body).digest == "0"
    assert (letter.body_truncated, letter.size_bytes) == (False, len(letter.body))


async def test_a_large_event_is_shown_in_part(bus: Bus) -> None:
    await bus.jetstream.publish(SUBJECT, b"\xff" * (MAX_BODY_CHARACTERS + 1), stream=EVENTS.name)
    await give_up(bus, INDEXER_CHANGES)
    letter = await DeadLetters(bus).get(at(1))
    assert (len(letter.body), letter.body_truncated) == (MAX_BODY_CHARACTERS, True)


async def test_a_replay_within_the_duplicate_window_stores_the_event_once_more_and_deletes_the_letter(bus: Bus) -> None:
    await kill_events(bus, 1)
    before = await messages_in(bus, EVENTS.name)
    assert (await DeadLetters(bus).replay(at(1))).subject == SUBJECT
    assert await messages_in(bus, EVENTS.name) == before + 1
    assert await messages_in(bus, DEAD_LETTERS.name) == 0
    again = await bus.jetstream.get_last_msg(EVENTS.name, SUBJECT)
    assert (again.headers or {})["Skillbus-Project"] == "default"
    assert not {"Skillbus-Error", "Skillbus-Subject"} & set(again.headers or {})


async def test_a_replay_that_was_cut_short_publishes_nothing_twice_when_it_is_repeated(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kill_events(bus, 1)
    before = await messages_in(bus, EVENTS.name)
    letters = DeadLetters(bus)
    with monkeypatch.context() as cut_short:

        async def lost(stream: str, sequence: int) -> bool:
            raise TimeoutError

        cut_short.setattr(bus.jetstream, "delete_msg", lost)
        with pytest.raises(RequestError):
            await letters.replay(at(1))
    assert await messages_in(bus, DEAD_LETTERS.name) == 1
    await letters.replay(at(1))
    assert await messages_in(bus, EVENTS.name) == before + 1
    assert await messages_in(bus, DEAD_LETTERS.name) == 0


async def test_a_letter_stays_when_the_stream_does_not_store_its_event(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kill_events(bus, 1)

    async def refuse(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(bus.jetstream, "publish", refuse)
    with pytest.raises(RequestError) as refused:
        await DeadLetters(bus).replay(at(1))
    assert refused.value.code is ErrorCode.DEADLINE_EXCEEDED
    assert await messages_in(bus, DEAD_LETTERS.name) == 1


async def test_a_dropped_letter_is_gone_and_its_event_stays_unpublished(bus: Bus) -> None:
    await kill_events(bus, 1)
    before = await messages_in(bus, EVENTS.name)
    assert (await DeadLetters(bus).drop(at(1))).sequence == 1
    assert await messages_in(bus, DEAD_LETTERS.name) == 0
    assert await messages_in(bus, EVENTS.name) == before


async def test_a_letter_that_does_not_exist_is_not_found(bus: Bus) -> None:
    letters = DeadLetters(bus)
    for request in (letters.get, letters.replay, letters.drop):
        with pytest.raises(RequestError) as refused:
            await request(at(7))
        assert refused.value.code is ErrorCode.NOT_FOUND


async def test_an_upload_is_replayed_while_its_object_is_the_same(bus: Bus) -> None:
    uploads = await open_object_store(bus, UPLOADS)
    await uploads.put("a.zip", b"package")
    await give_up(bus, INDEXER_UPLOADS)
    await DeadLetters(bus).replay(at(1))
    assert await messages_in(bus, DEAD_LETTERS.name) == 0
    assert await uploads.get("a.zip", 100) == b"package"
    subscription = await bus.jetstream.pull_subscribe_bind(INDEXER_UPLOADS.name, INDEXER_UPLOADS.stream)
    assert len(await subscription.fetch(1, timeout=5)) == 1


@pytest.mark.parametrize("replaced", [True, False])
async def test_an_upload_that_was_replaced_or_deleted_is_not_brought_back(bus: Bus, replaced: bool) -> None:
    uploads = await open_object_store(bus, UPLOADS)
    await uploads.put("a.zip", b"package")
    await give_up(bus, INDEXER_UPLOADS)
    await (uploads.put("a.zip", b"newer") if replaced else uploads.delete("a.zip"))
    with pytest.raises(RequestError) as refused:
        await DeadLetters(bus).replay(at(1))
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.CONFLICT, False)
    assert await messages_in(bus, DEAD_LETTERS.name) == 1
    assert await uploads.names() == (["a.zip"] if replaced else [])
