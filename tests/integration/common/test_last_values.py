"""What a bucket holds, read while it is written."""

import asyncio

import pytest
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import iterate_last_values
from skillbus.contracts.resources import CATALOGUE

STREAM = f"KV_{CATALOGUE.name}"
SUBJECTS = f"$KV.{CATALOGUE.name}.>"
KEYS = 400
"""More than one fetch takes."""


async def test_keys_that_are_written_anew_meanwhile_hold_no_reader_up(bus: Bus) -> None:
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    for number in range(KEYS):
        await bucket.put(f"p.skill.s{number}", b"old")
    seen: dict[str, bytes] = {}

    async with asyncio.timeout(10):
        async for message in iterate_last_values(bus.jetstream, STREAM, SUBJECTS):
            seen[message.subject] = message.data
            if len(seen) == 1:
                for number in range(KEYS):
                    await bucket.put(f"p.skill.s{number}", b"new")

    assert len(seen) == KEYS
    assert seen[f"$KV.{CATALOGUE.name}.p.skill.s{KEYS - 1}"] == b"new"


async def test_a_value_that_goes_before_it_is_fetched_holds_no_reader_up(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    await bucket.put("p.skill.gone", b"old")
    fetch = JetStreamContext.PullSubscription.fetch

    async def fetch_too_late(*given: object, **named: object) -> object:
        await bus.jetstream.purge_stream(STREAM)
        return await fetch(*given, **named)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", fetch_too_late)
    async with asyncio.timeout(5):
        assert [message async for message in iterate_last_values(bus.jetstream, STREAM, SUBJECTS)] == []


async def test_an_empty_bucket_has_no_values(bus: Bus) -> None:
    async with asyncio.timeout(5):
        assert [message async for message in iterate_last_values(bus.jetstream, STREAM, SUBJECTS)] == []


async def test_a_fetch_that_waits_in_vain_is_asked_again_whichever_error_says_so(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nats-py raises its own TimeoutError, and asyncio's when the server's answer comes at the last moment."""
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    await bucket.put("p.skill.there", b"value")
    fetch = JetStreamContext.PullSubscription.fetch
    errors = [TimeoutError(), NatsTimeoutError()]

    async def fetch_in_vain(*given: object, **named: object) -> object:
        if errors:
            raise errors.pop()
        return await fetch(*given, **named)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", fetch_in_vain)
    async with asyncio.timeout(5):
        assert [message.data async for message in iterate_last_values(bus.jetstream, STREAM, SUBJECTS)] == [b"value"]
