"""Many values of a bucket written at once."""

import asyncio

import pytest
from nats.errors import Error as NatsError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream_batch import KvValue, KvWrite, read_values, write_values
from skillbus.contracts.resources import CATALOGUE

MANY = 150


async def test_values_are_written_and_their_revisions_told_in_the_order_of_the_writes(bus: Bus) -> None:
    keys = [f"p.skill.s{number}" for number in range(MANY)]

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
