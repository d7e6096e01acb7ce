"""The object store on a real nats-server."""

import io
import os

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import PACKAGES, ObjectBucket


async def test_what_is_put_is_got_whole(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    data = os.urandom(1_500_000)
    await store.put("a.zip", data)
    await store.put_file("b.zip", io.BytesIO(b"small"))
    assert await store.get("a.zip", max_bytes=2_000_000) == data
    assert await store.names() == ["a.zip", "b.zip"]


async def test_what_is_not_there_is_not_found(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    with pytest.raises(RequestError) as caught:
        await store.get("none.zip", max_bytes=10)
    assert caught.value.code == ErrorCode.NOT_FOUND
    assert await store.names() == []
    await store.delete("none.zip")


async def test_more_than_the_reader_takes_is_refused(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", b"12345")
    with pytest.raises(RequestError) as caught:
        await store.get("a.zip", max_bytes=4)
    assert caught.value.code == ErrorCode.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize("size", [0, 1, 128 * 1024, 1_500_000])
async def test_an_object_is_read_piece_by_piece(bus: Bus, size: int) -> None:
    store = await open_object_store(bus, PACKAGES)
    data = os.urandom(size)
    await store.put("a.zip", data)
    opened = await store.open("a.zip", max_bytes=2_000_000)
    pieces = [piece async for piece in opened.pieces]
    assert (b"".join(pieces), opened.size_bytes) == (data, size)
    assert max(map(len, pieces), default=0) <= 128 * 1024


async def test_what_cannot_be_read_is_not_opened(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", bytes(11))
    for name, code in (("a.zip", ErrorCode.PAYLOAD_TOO_LARGE), ("none.zip", ErrorCode.NOT_FOUND)):
        with pytest.raises(RequestError) as caught:
            await store.open(name, max_bytes=10)
        assert caught.value.code is code


async def test_a_deleted_object_is_gone(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", b"12345")
    await store.delete("a.zip")
    with pytest.raises(RequestError) as caught:
        await store.get("a.zip", max_bytes=10)
    assert caught.value.code == ErrorCode.NOT_FOUND
    assert await store.names() == []


async def test_a_bucket_that_was_never_made_is_not_found(bus: Bus) -> None:
    with pytest.raises(RequestError) as caught:
        await open_object_store(bus, ObjectBucket("nowhere"))
    assert caught.value.code == ErrorCode.NOT_FOUND


async def test_objects_that_were_put_long_ago_are_told_by_the_servers_clock(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", b"1")
    await store.put("b.zip", b"2")
    assert await store.older_than(3600, ["a.zip", "b.zip"]) == []
    assert await store.older_than(-1, ["a.zip", "none.zip"]) == ["a.zip"]
