"""What only the embedded engine does: ownership of a directory, surviving kill -9, sharing the loop."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import qdrant_edge as edge

from skillbus.vectors import (
    DENSE,
    LEXICAL,
    CollectionSpec,
    VectorStoreFull,
    VectorStoreLocked,
    VectorStoreRejected,
    VectorStoreUnavailable,
    models,
    open_vector_store,
    point_id,
)
from skillbus.vectors.edge.store import open_edge_store

SPEC = CollectionSpec(dim=4)


def field(key: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


WRITER = """
import asyncio, sys
from pathlib import Path
from skillbus.vectors import CollectionSpec, models, open_vector_store, point_id

async def main():
    async with open_vector_store(None, Path(sys.argv[1])) as store:
        await store.ensure_collection("kept", CollectionSpec(dim=4))
        await store.switch_aliases({"tools": "kept"})
        for batch in range(100_000):
            rows = range(batch * 10, batch * 10 + 10)
            await store.upsert("tools", [
                models.PointStruct(id=point_id(str(row)), vector={"dense": [1.0, row, 0.5, 2.0]}, payload={"row": row})
                for row in rows
            ])
            if batch % 3 == 2:
                await store.delete("tools", [point_id(str(batch * 10))])
            print(batch, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def writer(edge_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(edge_path)], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def points(count: int) -> list[models.PointStruct]:
    return [
        models.PointStruct(id=point_id(str(row)), vector={DENSE: [1.0, float(row), 0.0, 2.0]}, payload={"row": row})
        for row in range(count)
    ]


def batches_written(writer: subprocess.Popen[str], until: int) -> int:
    for line in writer.stdout:
        if int(line) >= until:
            return int(line)
    raise AssertionError("the writer ended early")


async def test_a_killed_writer_loses_nothing_that_was_acknowledged(writer, edge_path):
    # fsync runs half a second behind, so these batches straddle flushed and unflushed ones
    batches_written(writer, 50)
    writer.send_signal(signal.SIGKILL)
    acknowledged = [int(line) for line in writer.stdout]
    writer.wait(timeout=5)
    last = max(acknowledged, default=50)
    deleted = {batch * 10 for batch in range(last + 1) if batch % 3 == 2}
    kept = [row for row in range((last + 1) * 10) if row not in deleted]

    async with open_vector_store(None, edge_path) as store:
        found = await store.retrieve("tools", [point_id(str(row)) for row in kept], with_vectors=True)
        ghosts = await store.retrieve("tools", [point_id(str(row)) for row in deleted])

    assert sorted(record.payload["row"] for record in found) == kept
    assert all(record.vector[DENSE] for record in found)
    assert ghosts == []


async def test_a_directory_open_in_another_process_is_refused_and_free_after_its_death(writer, edge_path):
    batches_written(writer, 0)
    with pytest.raises(VectorStoreLocked, match=f"process {writer.pid}"):
        async with open_vector_store(None, edge_path):
            pass
    writer.kill()
    writer.wait(timeout=5)
    async with open_vector_store(None, edge_path) as store:
        assert await store.count("tools") >= 10


async def test_a_directory_open_in_this_process_is_refused_and_the_first_store_works_on(edge_path):
    async with open_vector_store(None, edge_path) as store:
        with pytest.raises(VectorStoreLocked):
            async with open_vector_store(None, edge_path):
                pass
        assert await store.ensure_collection("tools", SPEC) is True


async def test_collections_and_aliases_are_there_after_reopening(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("blue", SPEC)
        await store.upsert("blue", points(250))
        await store.switch_aliases({"tools": "blue"})

    async with open_vector_store(None, edge_path) as store:
        assert await store.list_collections() == ["blue"]
        assert await store.count("tools") == 250
        assert await store.ensure_collection("blue", SPEC) is False


async def test_what_a_killed_process_left_half_made_is_swept(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("kept", SPEC)
    half_made = edge_path / "collections" / ".half-made" / "shard"
    half_made.mkdir(parents=True)

    async with open_vector_store(None, edge_path) as store:
        assert await store.list_collections() == ["kept"]
    assert not half_made.exists()


async def test_an_unreadable_collection_says_what_to_do(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", SPEC)
    (edge_path / "collections" / "tools" / "spec.json").write_text("{")
    with pytest.raises(VectorStoreUnavailable, match="index everything again"):
        async with open_vector_store(None, edge_path):
            pass


async def test_a_path_that_cannot_be_a_directory_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(VectorStoreUnavailable, match="choose another directory"):
        async with open_vector_store(None, tmp_path / "file" / "vectors"):
            pass


async def test_a_disk_that_refuses_an_alias_leaves_the_old_one(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("blue", SPEC)
        await store.ensure_collection("green", SPEC)
        await store.switch_aliases({"tools": "blue"})
        (edge_path / "aliases.json.new").mkdir()  # where the new file would be written
        with pytest.raises(VectorStoreUnavailable):
            await store.switch_aliases({"tools": "green"})
        assert await store.resolve_alias("tools") == "blue"


async def test_a_full_disk_refuses_writes_before_the_engine_meets_it_and_searches_go_on(edge_path, monkeypatch):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("kept", SPEC)
        await store.upsert("kept", points(3))
        with monkeypatch.context() as full:
            full.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=2**10, f_frsize=2**10))
            for write in (
                store.upsert("kept", points(1)),
                store.delete("kept", [point_id("0")]),
                store.ensure_collection("another", SPEC),
            ):
                with pytest.raises(VectorStoreFull, match=r"has 1\.0 MiB left"):
                    await write
            assert len((await store.scroll("kept"))[0]) == 3
        await store.upsert("kept", points(4))
        assert len((await store.scroll("kept"))[0]) == 4


async def test_a_disk_in_memory_keeps_the_sparse_files_of_a_collection_sparse(memory_path):
    async with open_vector_store(None, memory_path) as store:
        await store.ensure_collection("kept", SPEC)
        await store.upsert("kept", points(3))
    async with open_vector_store(None, memory_path) as store:
        assert len((await store.scroll("kept"))[0]) == 3
        files = [path.stat() for path in memory_path.rglob("*") if path.is_file()]
    assert sum(file.st_size for file in files) > 90 * 2**20
    assert sum(file.st_blocks * 512 for file in files) < 30 * 2**20


async def test_indexes_that_a_new_version_wants_are_added_to_an_old_collection(edge_path):
    payloads = {point_id(str(number)): {"room": f"客厅{number % 2}", "n": [number]} for number in range(250)}
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", CollectionSpec(dim=4, keywords=()))
        points = [models.PointStruct(id=id_, vector={}, payload=payload) for id_, payload in payloads.items()]
        await store.upsert("tools", points)
        assert await store.ensure_collection("tools", CollectionSpec(dim=4, keywords=("room",))) is False
        await store.upsert("tools", points[:1])
    async with open_vector_store(None, edge_path) as store:
        assert await store.count("tools", models.Filter(must=[field("room", "客厅0")])) == 125
        found = await store.retrieve("tools", list(payloads))
        assert {record.id: record.payload for record in found} == payloads


async def test_a_field_that_the_collection_does_not_name_cannot_be_filtered_by(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", CollectionSpec(dim=4, keywords=("room",)))
        unnamed = models.Filter(must_not=[field("room", "a"), models.Filter(should=[field("house", "b")])])
        asked = models.QueryRequest(query=[1.0, 0.0, 0.0, 0.0], using="dense", filter=unnamed)
        for call in (
            store.count("tools", unnamed),
            store.scroll("tools", condition=unnamed),
            store.delete("tools", unnamed),
            store.query("tools", [asked]),
        ):
            with pytest.raises(VectorStoreRejected, match="house"):
                await call


async def test_points_that_were_written_field_by_field_are_read_and_filtered_as_they_were(edge_path):
    payload = {"room": "客厅", "deep": {"er": [1, None]}, "n": 2}
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", CollectionSpec(dim=4, keywords=("room",)))
    shard = edge.EdgeShard.load(str(edge_path / "collections" / "tools" / "shard"))
    shard.update(edge.UpdateOperation.upsert_points([edge.Point(point_id("old"), {}, payload)]))
    shard.close()
    async with open_vector_store(None, edge_path) as store:
        assert await store.count("tools", models.Filter(must=[field("room", "客厅")])) == 1
        [whole] = await store.retrieve("tools", [point_id("old")])
        [part] = await store.retrieve("tools", [point_id("old")], with_payload=["n", "deep.er"])
        assert whole.payload == payload
        assert part.payload == {"n": 2, "deep": {"er": [1, None]}}


async def test_a_record_is_the_point_that_was_written(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", SPEC)
        vectors = {DENSE: [0.0, 1.0, 0.0, 0.0], LEXICAL: models.SparseValues(indices=[3, 8], values=[0.5, 1.5])}
        point = models.PointStruct(id=point_id("one"), vector=vectors, payload={"project": "p", "tags": ["a"]})
        await store.upsert("tools", [point])
        [found] = await store.retrieve("tools", [point_id("one")], with_vectors=True)
    assert found == models.Record(id=point.id, vector=vectors, payload=point.payload)


async def test_other_tasks_run_between_the_chunks_of_a_large_upsert(edge_path):
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", SPEC)
        counting = asyncio.create_task(count_turns())
        await store.upsert("tools", points(1000))
        counting.cancel()
    assert turns >= 9


async def test_a_collection_deleted_during_an_upsert_ends_it_with_an_error(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", SPEC)
        upsert = asyncio.create_task(store.upsert("tools", points(5000)))
        await asyncio.sleep(0)
        await store.delete_collection("tools")
        with pytest.raises(Exception, match="there is no vector collection"):
            await upsert
        assert (await store.health()).ready


async def test_writes_are_flushed_soon_without_being_asked(edge_path, monkeypatch):
    monkeypatch.setattr("skillbus.vectors.edge.store.FLUSH_DELAY_S", 0.1)
    async with open_edge_store(edge_path) as store:
        await store.ensure_collection("tools", SPEC)
        await store.upsert("tools", points(1))
        assert store._unflushed == {"tools"}
        async with asyncio.timeout(5):
            while store._unflushed:  # noqa: ASYNC110  # the end of a flush is not an event that anyone needs
                await asyncio.sleep(0.01)


async def test_a_collection_that_outgrew_the_exact_scan_is_reported_and_logged_once(edge_path, caplog):
    caplog.set_level(logging.WARNING)
    async with open_edge_store(edge_path, exact_scan_points=20) as store:
        await store.ensure_collection("tools", SPEC)
        await store.upsert("tools", points(20))
        assert (await store.health()).notices == ()
        await store.upsert("tools", points(21))
        await store.upsert("tools", points(30))
        health = await store.health()
        assert health.ready
        assert "time for a Qdrant server" in health.notices[0]
        await store.delete("tools", [point.id for point in points(30)])
        assert (await store.health()).notices == ()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["vector_store_outgrown"]


async def test_a_closed_store_is_unavailable_and_says_so(edge_path):
    async with open_vector_store(None, edge_path) as store:
        await store.ensure_collection("tools", SPEC)
    with pytest.raises(VectorStoreUnavailable):
        await store.count("tools")
    with pytest.raises(VectorStoreUnavailable):
        await store.list_collections()
    assert (await store.health()).ready is False


async def test_an_exception_of_the_caller_leaves_the_store_as_itself(edge_path):
    with pytest.raises(KeyError):
        async with open_vector_store(None, edge_path):
            raise KeyError("the caller's own")
    async with open_vector_store(None, edge_path):
        pass
