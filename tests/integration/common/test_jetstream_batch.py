"""Many values of a bucket, read or written at once."""

import asyncio

import pytest
from nats.errors import Error as NatsError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream_batch import KvValue, KvWrite, read_values, write_values
from skillbus.contracts.resources import CATALOGUE

KEYS = 150
"""More than are asked for at once."""


async def test_values_come_in_the_order_of_their_keys_with_their_revisions(bus: Bus) -> None:
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    revisions = [await bucket.put(f"p.skill.s{number}", f"value {number}".encode()) for number in range(KEYS)]
    await bucket.put("p.skill.s3", b"newer")

    found = await read_values(bus.client, CATALOGUE.name, [f"p.skill.s{number}" for number in reversed(range(KEYS))])

    assert found[0] == KvValue(f"value {KEYS - 1}".encode(), revisions[-1])
    assert found[KEYS - 4] == KvValue(b"newer", revisions[-1] + 1)
    assert [value.data for value in found if value][-1] == b"value 0"
    assert len(found) == KEYS


async def test_keys_that_never_were_and_keys_that_were_deleted_are_told_apart(bus: Bus) -> None:
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    first = await bucket.put("p.skill.gone", b"was here")
    await bucket.delete("p.skill.gone")
    await bucket.put("p.skill.purged", b"was here")
    await bucket.purge("p.skill.purged")
    await bucket.put("p.skill.empty", b"")
    keys = ["p.skill.gone", "p.skill.never", "p.skill.purged", "p.skill.empty"]

    gone, never, purged, empty = await read_values(bus.client, CATALOGUE.name, keys)

    assert gone == KvValue(None, first + 1)
    assert never is None
    assert purged is not None
    assert purged.data is None
    assert empty is not None
    assert empty.data == b""


async def test_a_bucket_that_is_not_there_is_an_error(bus: Bus) -> None:
    with pytest.raises(NatsError):
        async with asyncio.timeout(5):
            await read_values(bus.client, "no-such-bucket", ["p.skill.s"])


async def test_no_keys_are_no_question(bus: Bus) -> None:
    assert await read_values(bus.client, CATALOGUE.name, []) == []


async def test_a_value_written_with_a_condition_has_its_data(bus: Bus) -> None:
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    await bucket.create("p.skill.made", b"first")
    revision = await bucket.update("p.skill.made", b"second", last=(await bucket.get("p.skill.made")).revision)
    assert await read_values(bus.client, CATALOGUE.name, ["p.skill.made"]) == [KvValue(b"second", revision)]


async def test_values_are_written_and_their_revisions_told_in_the_order_of_the_writes(bus: Bus) -> None:
    keys = [f"p.skill.s{number}" for number in range(KEYS)]

    revisions = await write_values(bus.client, CATALOGUE.name, [KvWrite(key, key.encode(), 0) for key in keys])

    found = [value for value in await read_values(bus.client, CATALOGUE.name, keys) if value]
    assert [(value.data, value.revision) for value in found] == [
        (key.encode(), revision) for key, revision in zip(keys, revisions, strict=True)
    ]


async def test_what_somebody_else_has_written_since_is_told_and_left_and_the_others_are_written(bus: Bus) -> None:
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    seen = await bucket.put("p.skill.mine", b"first")
    await bucket.put("p.skill.theirs", b"theirs")
    gone = await bucket.put("p.skill.gone", b"was here")
    await bucket.delete("p.skill.gone")
    writes = [
        KvWrite("p.skill.theirs", b"taken for new", 0),
        KvWrite("p.skill.mine", b"second", seen),
        KvWrite("p.skill.gone", b"taken for there", gone),
        KvWrite("p.skill.gone", b"again", gone + 1),
    ]

    theirs, mine, late, again = await write_values(bus.client, CATALOGUE.name, writes)

    assert theirs is None
    assert late is None
    assert await read_values(bus.client, CATALOGUE.name, ["p.skill.mine", "p.skill.gone"]) == [
        KvValue(b"second", mine or 0),
        KvValue(b"again", again or 0),
    ]
    assert (await bucket.get("p.skill.theirs")).value == b"theirs"


async def test_a_bucket_to_write_to_that_is_not_there_is_an_error(bus: Bus) -> None:
    with pytest.raises(NatsError):
        async with asyncio.timeout(5):
            await write_values(bus.client, "no-such-bucket", [KvWrite("p.skill.s", b"value", 0)])


async def test_a_value_that_the_bucket_refuses_is_an_error(bus: Bus) -> None:
    await bus.jetstream.add_stream(name="KV_narrow", subjects=["$KV.narrow.>"], max_msg_size=100)
    with pytest.raises(NatsError):
        async with asyncio.timeout(5):
            await write_values(bus.client, "narrow", [KvWrite("a", b"v", 0), KvWrite("b", b"v" * 200, 0)])


async def test_no_writes_are_no_request(bus: Bus) -> None:
    assert await write_values(bus.client, CATALOGUE.name, []) == []
