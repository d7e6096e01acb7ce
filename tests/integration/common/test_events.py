"""Events on a real nats-server: publishing, retries, dead letters."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from skillbus.common.bus import events
from skillbus.common.bus import headers as h
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.dead_letter_store import DeadLetters
from skillbus.common.bus.events import (
    Delivery,
    PermanentError,
    Subscription,
    consume,
    make_event_subject,
    publish_event,
    publish_events,
)
from skillbus.common.bus.jetstream_batch import BatchRequest
from skillbus.common.bus.provision import provision
from skillbus.common.testing import eventually
from skillbus.contracts.indexer.dead_letters import DeadLetterSelector, ListDeadLetters
from skillbus.contracts.indexer.skills import SKILL_INSTALLED, SKILL_REMOVED, SkillChanged
from skillbus.contracts.resources import CONSUMERS, DEAD_LETTERS, EVENTS, INDEXER_CHANGES
from skillbus.standalone.nats_server import NatsServer

FACT = SkillChanged(project="default", name="git-commit", digest="d1")


class Listener:
    """Keeps what it hears; fails the first `failures` times."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.heard: list[Delivery] = []
        self.done: asyncio.Queue[Delivery] = asyncio.Queue()
        self._failures = failures
        self._error = error or RuntimeError("not yet")

    async def __call__(self, delivery: Delivery) -> None:
        self.heard.append(delivery)
        if len(self.heard) <= self._failures:
            raise self._error
        await self.done.put(delivery)


async def publish(bus: Bus, message_id: str = "m1") -> None:
    await publish_event(bus, SKILL_INSTALLED, FACT, identity=FACT.name, message_id=message_id, project=FACT.project)


async def unacknowledged(bus: Bus) -> int:
    return (await bus.jetstream.consumer_info(EVENTS.name, INDEXER_CHANGES.name)).num_ack_pending or 0


async def dead_letter(bus: Bus) -> int:
    """Wait for one dead letter and return its sequence."""
    dead_letters = DeadLetters(bus)
    page = await eventually(lambda: dead_letters.list_page(ListDeadLetters()), lambda page: page.total)
    return page.dead_letters[0].sequence


async def test_a_fact_reaches_the_consumer_once_although_it_was_published_twice(bus: Bus) -> None:
    listener = Listener()
    async with asyncio.timeout(5), consume(bus, [Subscription(INDEXER_CHANGES, listener)]):
        await publish(bus)
        await publish(bus)
        await publish(bus, message_id="m2")
        first, second = await listener.done.get(), await listener.done.get()
    assert first.decode(SkillChanged) == FACT
    assert (first.attempt, second.attempt) == (1, 1)
    assert len(listener.heard) == 2


async def test_a_consumer_hears_only_the_facts_it_is_for(bus: Bus) -> None:
    listener = Listener()
    async with asyncio.timeout(5), consume(bus, [Subscription(INDEXER_CHANGES, listener)]):
        await bus.jetstream.publish("skillbus.evt.skill.indexed.x", b"{}", stream=EVENTS.name)
        await bus.jetstream.publish(SKILL_REMOVED.subject("x"), b"{}", stream=EVENTS.name)
        heard = await listener.done.get()
    assert heard.subject == SKILL_REMOVED.subject("x")


async def test_a_failed_event_is_tried_again_until_it_is_done(bus: Bus) -> None:
    listener = Listener(failures=2)
    async with asyncio.timeout(5), consume(bus, [Subscription(INDEXER_CHANGES, listener, delays_s=(0.05, 0.05, 0.05))]):
        await publish(bus)
        done = await listener.done.get()
    assert done.attempt == 3
    assert (await DeadLetters(bus).list_page(ListDeadLetters())).total == 0


async def test_an_event_that_keeps_failing_becomes_a_dead_letter_that_can_be_replayed(bus: Bus) -> None:
    listener = Listener(failures=3)
    async with asyncio.timeout(5), consume(bus, [Subscription(INDEXER_CHANGES, listener, delays_s=(0.05, 0.05))]):
        await publish(bus)
        sequence = await dead_letter(bus)
        letter = await DeadLetters(bus).get(DeadLetterSelector(sequence=sequence))
        assert (letter.subject, letter.error) == (SKILL_INSTALLED.subject("git-commit"), "RuntimeError: not yet")
        await DeadLetters(bus).replay(DeadLetterSelector(sequence=sequence))
        again = await listener.done.get()
    assert again.decode(SkillChanged) == FACT
    assert again.headers[h.PROJECT] == FACT.project
    assert (await DeadLetters(bus).list_page(ListDeadLetters())).dead_letters == ()


async def test_an_event_whose_handling_takes_longer_than_its_ack_wait_is_delivered_once(bus: Bus) -> None:
    quick = replace(INDEXER_CHANGES, name="quick-to-redeliver", ack_wait_s=1.0)
    attempts: list[int] = []
    handled = asyncio.Event()

    async def handle_slowly(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        await asyncio.sleep(2.5 * quick.ack_wait_s)
        handled.set()

    async with asyncio.timeout(20), consume(bus, [Subscription(quick, handle_slowly)]):
        await publish(bus)
        await handled.wait()
    assert attempts == [1]


@pytest.mark.parametrize("body", [b"not json", b'{"project": "default"}', b"\xff"])
async def test_an_event_that_cannot_be_read_becomes_a_dead_letter_at_once(bus: Bus, body: bytes) -> None:
    async def read(delivery: Delivery) -> None:
        delivery.decode(SkillChanged)

    async with asyncio.timeout(5), consume(bus, [Subscription(INDEXER_CHANGES, read)]):
        await bus.jetstream.publish(SKILL_INSTALLED.subject("x"), body, stream=EVENTS.name)
        await dead_letter(bus)
        await eventually(lambda: unacknowledged(bus), lambda count: count == 0)


async def test_a_permanent_error_is_not_tried_again(bus: Bus) -> None:
    listener = Listener(failures=99, error=PermanentError("never"))
    async with asyncio.timeout(5), consume(bus, [Subscription(INDEXER_CHANGES, listener)]):
        await publish(bus)
        await dead_letter(bus)
    assert len(listener.heard) == 1


async def test_two_replicas_share_the_events(bus: Bus) -> None:
    one, two = Listener(), Listener()
    both = one.done = two.done
    async with (
        asyncio.timeout(5),
        consume(bus, [Subscription(INDEXER_CHANGES, one)]),
        consume(bus, [Subscription(INDEXER_CHANGES, two)]),
    ):
        for number in range(20):
            await publish(bus, message_id=f"m{number}")
        for _ in range(20):
            await both.get()
    assert len(one.heard) + len(two.heard) == 20


async def test_stopping_a_consumer_finishes_the_event_at_work(bus: Bus) -> None:
    started, go_on, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_: Delivery) -> None:
        started.set()
        await go_on.wait()
        finished.set()

    async with asyncio.timeout(5):
        async with consume(bus, [Subscription(INDEXER_CHANGES, slow)]):
            await publish(bus)
            await started.wait()
            asyncio.get_running_loop().call_later(0.05, go_on.set)
        assert finished.is_set()
    await eventually(lambda: unacknowledged(bus), lambda count: count == 0)


CLOSES_ITS_CONNECTION = """
import asyncio, sys
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from skillbus.common.bus.connection import BusSettings, open_bus
from skillbus.common.bus.events import Subscription, consume
from skillbus.contracts.resources import INDEXER_CHANGES

async def main():
    url, token = sys.argv[1:]
    async with open_bus(BusSettings(url=url, token=SecretStr(token)), "closing", CollectorRegistry()) as bus:
        async with consume(bus, [Subscription(INDEXER_CHANGES, asyncio.sleep)]):
            await bus.client.close()
            await asyncio.sleep(0.1)
        print("stopped", flush=True)

asyncio.run(main())
"""


def test_a_consumer_whose_connection_was_closed_for_good_leaves_the_loop_to_others_and_can_be_stopped(
    bus: Bus, nats_server: NatsServer
) -> None:
    """NATS closes a connection for good after some errors. In a process of its own: the loop may never turn again."""
    address = nats_server.address
    command = [sys.executable, "-c", CLOSES_ITS_CONNECTION, address.url, address.token]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert said.stdout.endswith("stopped\n")


async def test_facts_are_on_disk_and_consumed_after_the_server_was_killed(bus: Bus, nats_server: NatsServer) -> None:
    listener = Listener()
    async with asyncio.timeout(20), consume(bus, [Subscription(INDEXER_CHANGES, listener)]):
        await publish(bus, "before")
        await listener.done.get()
        assert nats_server.pid is not None
        os.kill(nats_server.pid, signal.SIGKILL)
        await publish(bus, "after")
        heard = await listener.done.get()
    assert heard.attempt == 1


async def test_facts_that_were_sent_together_are_stored_in_order_and_once_although_one_was_there(bus: Bus) -> None:
    def make_fact(name: str) -> BatchRequest:
        return BatchRequest(make_event_subject(SKILL_INSTALLED, name), b"{}", {h.MESSAGE_ID: name})

    await publish_events(bus, [make_fact("b")])
    await publish_events(bus, [make_fact("a"), make_fact("b"), make_fact("c d")])
    assert [await read_subject(bus, number) for number in (1, 2, 3)] == list(
        map(SKILL_INSTALLED.subject, ("b", "a", "c_d"))
    )
    assert (await bus.jetstream.stream_info(EVENTS.name)).state.messages == 3


async def test_facts_that_the_stream_refused_at_first_are_published_again(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose_replies(*_: object) -> list[Msg]:
        return [Msg(bus.client, data=b'{"error": {"code": 503}}')]

    monkeypatch.setattr(events, "send_batch", lose_replies)
    await publish_events(bus, [BatchRequest(SKILL_INSTALLED.subject("a"), b"{}", {h.MESSAGE_ID: "a"})])
    assert await read_subject(bus, 1) == SKILL_INSTALLED.subject("a")


async def read_subject(bus: Bus, number: int) -> str | None:
    return (await bus.jetstream.get_msg(EVENTS.name, number)).subject


async def test_provisioning_again_changes_nothing(bus: Bus) -> None:
    await publish(bus)
    await provision(bus.jetstream)
    assert (await bus.jetstream.stream_info(EVENTS.name)).state.messages == 1
    assert (await bus.jetstream.stream_info(DEAD_LETTERS.name)).state.messages == 0
    for consumer in CONSUMERS:
        info = await bus.jetstream.consumer_info(consumer.stream, consumer.name)
        assert sorted(info.config.filter_subjects or [info.config.filter_subject or ""]) == sorted(consumer.subjects)


async def test_a_consumer_listens_on_the_inbox_of_its_connection(bus_settings: BusSettings) -> None:
    """Users of a server may be allowed to listen on no other: deploy/nats.conf."""
    listener = Listener()
    settings = bus_settings.model_copy(update={"inbox_prefix": "_INBOX_indexer"})
    async with asyncio.timeout(5), open_bus(settings, "test", CollectorRegistry()) as bus:
        await provision(bus.jetstream)
        async with consume(bus, [Subscription(INDEXER_CHANGES, listener)]):
            await publish(bus)
            await listener.done.get()
            inboxes = {sub.subject for sub in bus.client._subs.values() if "INBOX" in sub.subject}
    assert {subject.partition(".")[0] for subject in inboxes} == {"_INBOX_indexer"}
