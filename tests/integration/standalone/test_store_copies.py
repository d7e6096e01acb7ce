"""What becomes of the copies of a store beside what the contract suite holds of them."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from skillbus.standalone.workers.channel import ProcessChannel, open_channel
from skillbus.standalone.workers.store_copy import APPLY_WRITE, COPY_STORE, CopiedVectorStore, StoreCopy, copy_files
from skillbus.vectors import DENSE, CollectionSpec, VectorStore, VectorStoreFull, models, open_vector_store, point_id

_SPEC = CollectionSpec(dim=4)


def make_points(numbers: Sequence[int]) -> list[models.PointStruct]:
    return [
        models.PointStruct(point_id(str(number)), {DENSE: [1.0, number, 0.0, 0.0]}, {"number": number})
        for number in numbers
    ]


async def open_copy(stack: AsyncExitStack, source: CopiedVectorStore, path: Path) -> tuple[VectorStore, ProcessChannel]:
    ends = socket.socketpair()

    async def add_copy(target: Path) -> None:
        await source.add_copy(target, main)

    copy = StoreCopy(partial(open_vector_store, None))
    main = await stack.enter_async_context(open_channel(ends[0], {COPY_STORE: add_copy}))
    worker = await stack.enter_async_context(open_channel(ends[1], copy.list_handlers()))
    return await stack.enter_async_context(copy.open_copy(worker, path)), main


async def test_a_copy_made_between_writes_has_all_of_them(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        path = tmp_path / "vectors"
        source = CopiedVectorStore(await stack.enter_async_context(open_vector_store(None, path)), path)
        await source.ensure_collection("a", _SPEC)
        writing = asyncio.ensure_future(source.upsert("a", make_points(range(1_000))))
        first, _ = await open_copy(stack, source, tmp_path / "first")
        await writing
        await source.switch_aliases({"live": "a"})
        second, _ = await open_copy(stack, source, tmp_path / "second")
        await source.delete("live", [point_id("7")])
        for store in (source, first, second):
            assert await store.count("live") == 999
        assert [record.payload for record in await second.retrieve("a", [point_id("8")])] == [{"number": 8}]


async def test_a_write_that_is_cancelled_when_it_has_begun_is_done_in_the_copies_too(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        path = tmp_path / "vectors"
        source = CopiedVectorStore(await stack.enter_async_context(open_vector_store(None, path)), path)
        await source.ensure_collection("a", _SPEC)
        copy, _ = await open_copy(stack, source, tmp_path / "copy")
        for turns in range(6):
            writing = asyncio.ensure_future(source.upsert("a", make_points([turns])))
            for _ in range(turns):
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait([writing])
        await source.upsert("a", make_points([99]))  # behind all others
        assert await copy.count("a") == await source.count("a") > 1


async def test_a_copy_that_fails_is_cut_off_and_the_write_is_done(tmp_path: Path) -> None:
    async def refuse(*_: object) -> None:
        raise VectorStoreFull(tmp_path, 0, 1)

    async with AsyncExitStack() as stack:
        path = tmp_path / "vectors"
        source = CopiedVectorStore(await stack.enter_async_context(open_vector_store(None, path)), path)
        ends = socket.socketpair()
        main = await stack.enter_async_context(open_channel(ends[0], {}))
        worker = await stack.enter_async_context(open_channel(ends[1], {APPLY_WRITE: refuse}))
        await source.add_copy(tmp_path / "copy", main)
        await source.ensure_collection("a", _SPEC)
        await source.upsert("a", make_points([1]))
        async with asyncio.timeout(5):
            await worker.closed.wait()
        assert await source.count("a") == 1


def test_holes_of_files_stay_holes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / ".half made").mkdir()
    (source / "lock").write_text("1")
    with (source / "folder" / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(8 * 2**20)
        file.write(b"middle")
        file.truncate(64 * 2**20)
    copy_files(source, tmp_path / "copy")
    copied = tmp_path / "copy" / "folder" / "sparse"
    assert copied.read_bytes() == (source / "folder" / "sparse").read_bytes()
    assert copied.stat().st_blocks <= (source / "folder" / "sparse").stat().st_blocks
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["folder"]
