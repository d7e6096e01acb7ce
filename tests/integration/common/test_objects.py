"""The object store on a real nats-server."""

import asyncio
import hashlib
import io
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from nats.js.api import ObjectStoreConfig

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.disk_space import KEEP_FREE_BYTES, DiskSpace
from skillbus.common.bus.objects import open_object_store
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import PACKAGES, ObjectBucket


async def test_what_is_put_is_got_whole(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    data = os.urandom(1_500_000)
    await store.put("a.zip", data)
    await store.put_file("b.zip", io.BytesIO(b"small"), 5)
    assert await store.get("a.zip", max_bytes=2_000_000) == data
    assert await store.names() == ["a.zip", "b.zip"]


async def test_a_small_object_that_is_new_takes_two_messages(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    before = bus.client.stats["out_msgs"]
    await store.put("a.zip", b"12345")
    assert bus.client.stats["out_msgs"] - before == 2


async def test_of_an_object_that_was_replaced_or_deleted_nothing_is_kept(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)

    async def count_chunks() -> int:
        info = await bus.jetstream.stream_info(PACKAGES.stream, subjects_filter=f"$O.{PACKAGES.name}.C.>")
        return sum((info.state.subjects or {}).values())

    await store.put("a.zip", os.urandom(300_000))
    assert await count_chunks() == 3
    await store.put("a.zip", b"second")
    assert (await count_chunks(), await store.get("a.zip", max_bytes=10)) == (1, b"second")
    await store.delete("a.zip")
    assert await count_chunks() == 0
    await store.put("a.zip", b"third")
    assert (await count_chunks(), await store.get("a.zip", max_bytes=10)) == (1, b"third")


async def test_what_arrives_in_pieces_is_stored_whole_or_not_at_all(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    data = os.urandom(300_000)

    async def send(*, is_broken: bool) -> AsyncIterator[bytes]:
        for at in range(0, len(data), 70_000):
            if is_broken and at:
                raise OSError("the sender has left")
            yield data[at : at + 70_000]

    stored = await store.put_pieces("a.log", send(is_broken=False))
    assert (stored.size_bytes, stored.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert await store.get("a.log", max_bytes=len(data)) == data
    with pytest.raises(OSError, match="has left"):
        await store.put_pieces("b.log", send(is_broken=True))
    info = await bus.jetstream.stream_info(PACKAGES.stream, subjects_filter=f"$O.{PACKAGES.name}.>")
    assert sum((info.state.subjects or {}).values()) == 3 + 1  # chunks and the record
    assert await store.names() == ["a.log"]


async def test_of_an_object_that_could_not_be_read_to_its_end_nothing_is_kept(bus: Bus) -> None:
    class BrokenFile(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 0:
                raise OSError("broken")
            return super().read(size)

    store = await open_object_store(bus, PACKAGES)
    with pytest.raises(OSError, match="broken"):
        await store.put_file("a.zip", BrokenFile(io.BytesIO(bytes(300_000))), 300_000)
    state = (await bus.jetstream.stream_info(PACKAGES.stream)).state
    assert (state.messages, await store.names()) == (0, [])


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


async def test_reading_makes_no_consumer(bus: Bus) -> None:
    """Who may create a consumer makes the server publish stored messages on any subject."""
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", os.urandom(300_000))
    opened = await store.open("a.zip", max_bytes=1_000_000)
    await anext(opened.pieces)
    state = (await bus.jetstream.stream_info(PACKAGES.stream)).state
    await opened.pieces.aclose()
    assert state.consumer_count == 0


async def test_an_object_that_is_replaced_while_it_is_read_fails_at_once(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", os.urandom(300_000))
    opened = await store.open("a.zip", max_bytes=1_000_000)
    await anext(opened.pieces)
    await store.put("a.zip", b"new")
    async with asyncio.timeout(5):
        with pytest.raises(RequestError) as caught:
            await anext(opened.pieces)
    assert caught.value.code is ErrorCode.UNAVAILABLE


async def test_content_that_does_not_have_its_digest_is_refused(bus: Bus) -> None:
    store = await open_object_store(bus, PACKAGES)
    await store.put("a.zip", b"12345")
    record = await bus.jetstream.get_msg(PACKAGES.stream, 2)  # the first message is the chunk
    info = json.loads(record.data or b"")
    info["nuid"] += "x"
    await bus.jetstream.publish(f"$O.{PACKAGES.name}.C.{info['nuid']}", b"54321")
    await bus.jetstream.publish(record.subject or "", json.dumps(info).encode(), headers={"Nats-Rollup": "sub"})
    with pytest.raises(RequestError, match="digest"):
        await store.get("a.zip", max_bytes=10)


async def test_an_object_for_which_the_disk_or_the_bucket_has_no_room_is_refused_as_storage_full(
    bus: Bus, tmp_path: Path
) -> None:
    small = ObjectBucket("small", max_bytes=200_000)
    await bus.jetstream.create_object_store(small.name, config=ObjectStoreConfig(max_bytes=small.max_bytes))
    disk = DiskSpace(tmp_path, limit_bytes=KEEP_FREE_BYTES + 1_000_000)
    store = await open_object_store(replace(bus, disk=disk), small)
    for size_bytes, reason in ((1_000_001, "new data needs"), (300_000, "maximum bytes exceeded")):
        with pytest.raises(RequestError, match=reason) as refused:
            await store.put("a.zip", bytes(size_bytes))
        assert refused.value.code is ErrorCode.STORAGE_FULL
    await store.put("a.zip", bytes(1_000))
