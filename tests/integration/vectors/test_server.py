"""What only a server does: be down, be slow, be something else, and come back."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qdrant

from skillbus.common.testing import eventually
from skillbus.vectors import (
    CollectionMissing,
    CollectionSpec,
    VectorStoreRejected,
    VectorStoreUnavailable,
    models,
    open_vector_store,
    point_id,
)
from skillbus.vectors.server.nodes import ServerNodes
from skillbus.vectors.server.rest_store import RestVectorStore
from skillbus.vectors.server_options import ServerOptions

from .memory_server import serve_in_memory

Answer = Callable[[str], tuple[int, str]]
REST = ServerOptions(grpc_port=0)
HOST = "http://127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def tcp_server(
    port: int, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], host: str = "127.0.0.1"
):
    """Serves connections by `handle`; leaving it waits until all of them have ended."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        try:
            await handle(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(serve, host, port):
        yield
        if connections:
            await asyncio.wait(connections, timeout=5)


@asynccontextmanager
async def http_server(port: int, answer: Answer) -> AsyncIterator[list[str]]:
    """Answers every request by `answer(request line)` and closes; yields the heads of the requests."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        status, body = answer(head.splitlines()[0])
        content = body.encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode())
        writer.write(content)
        await writer.drain()

    async with tcp_server(port, serve):
        yield heads


def counts(_: str) -> tuple[int, str]:
    return 200, json.dumps({"result": {"count": 3}, "status": "ok", "time": 0.0})


def refuses(status: int, reason: str) -> Answer:
    return lambda _: (status, json.dumps({"status": {"error": reason}, "time": 0.0}))


@pytest.mark.spec("skill-vector-retrieval.md § LanceDB连接失败")
@pytest.mark.parametrize("grpc_port", [0, 1])
async def test_a_refused_connection_is_unavailable_within_the_time_limit(grpc_port):
    """skill-vector-retrieval.md § LanceDB连接失败, in the words that stand for Qdrant"""
    url = f"http://127.0.0.1:{free_port()}"
    async with open_vector_store(url, None, timeout_s=1, server=ServerOptions(grpc_port=grpc_port)) as store:
        started = time.monotonic()
        with pytest.raises(VectorStoreUnavailable, match=r"^Qdrant connection failed: "):
            await store.count("tools")
        assert time.monotonic() - started < 5
        health = await store.health()
        assert health.ready is False
        assert health.notices[0].startswith("Qdrant connection failed")


async def test_a_server_that_comes_up_serves_the_store_that_was_opened_before_it():
    port = free_port()
    async with open_vector_store(f"http://127.0.0.1:{port}", None, server=REST, timeout_s=2) as store:
        for _ in range(2):
            with pytest.raises(VectorStoreUnavailable):
                await store.count("tools")
            async with http_server(port, counts):
                assert await store.count("tools") == 3


async def test_a_server_that_never_answers_is_given_up_at_the_time_limit():
    port = free_port()

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        tcp_server(port, swallow),
        open_vector_store(f"http://127.0.0.1:{port}", None, server=REST, timeout_s=0.3) as store,
    ):
        started = time.monotonic()
        with pytest.raises(VectorStoreUnavailable, match="time limit"):
            await store.upsert("tools", [models.PointStruct(id=point_id("a"), vector={"dense": [1.0]})])
        assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refuses(404, "Not found: Collection `tools` doesn't exist!"), CollectionMissing),
        (refuses(400, "Wrong input: Vector dimension error"), VectorStoreRejected),
        (refuses(422, "Validation error"), VectorStoreRejected),
        (refuses(500, "Service internal error"), VectorStoreUnavailable),
        (refuses(503, "Service temporarily unavailable"), VectorStoreUnavailable),
        (lambda _: (401, "Must provide an API key or an Authorization bearer token"), VectorStoreUnavailable),
        (lambda _: (404, "<html>no such page</html>"), VectorStoreUnavailable),
        (lambda _: (200, "<html>welcome</html>"), VectorStoreUnavailable),
        (lambda _: (200, '{"result": {"unexpected": 1}}'), VectorStoreUnavailable),
    ],
)
async def test_what_a_server_answers_becomes_one_kind_of_error(answer, error):
    port = free_port()
    async with (
        http_server(port, answer),
        open_vector_store(f"http://127.0.0.1:{port}", None, server=REST, timeout_s=2) as store,
    ):
        with pytest.raises(error) as raised:
            await store.count("tools")
    assert type(raised.value) is error


async def test_the_api_key_travels_in_its_header():
    port = free_port()
    async with (
        http_server(port, counts) as heads,
        open_vector_store(
            f"http://127.0.0.1:{port}", None, server=ServerOptions("s3cret", grpc_port=0), timeout_s=2
        ) as store,
    ):
        await store.count("tools")
    assert "api-key: s3cret" in heads[0].lower()


async def test_a_backfill_tells_the_server_to_insert_only():
    port = free_port()
    bodies: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        bodies.append((await reader.readexactly(length)).decode())
        body = b'{"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0.0}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        await writer.drain()

    async with (
        tcp_server(port, serve),
        open_vector_store(f"http://127.0.0.1:{port}", None, server=REST, timeout_s=2) as store,
    ):
        written = [models.PointStruct(id=point_id(str(row)), vector={"dense": [1.0]}) for row in range(300)]
        await store.upsert("tools", written, insert_only=True)
    sent = [json.loads(body) for body in bodies]
    assert [len(body["points"]) for body in sent] == [256, 44]
    assert {body["update_mode"] for body in sent} == {"insert_only"}


async def test_calls_after_closing_are_unavailable():
    async with open_vector_store(f"http://127.0.0.1:{free_port()}", None, timeout_s=1) as store:
        await store.close()
    with pytest.raises(VectorStoreUnavailable):
        await store.ensure_collection("tools", CollectionSpec(dim=4))


@pytest.mark.parametrize(("url", "unwanted"), [("'http://127.0.0.1:1'", "qdrant_edge"), ("None", "qdrant_client")])
def test_only_the_chosen_engine_is_imported(url, unwanted, tmp_path):
    script = f"""
import asyncio, sys
from pathlib import Path
from skillbus.vectors import open_vector_store
async def main():
    async with open_vector_store({url}, Path({str(tmp_path)!r})):
        assert {unwanted!r} not in sys.modules
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


async def test_a_store_needs_a_url_or_a_directory():
    with pytest.raises(VectorStoreRejected):
        async with open_vector_store(None, None):
            pass


class RecordingClient(AsyncQdrantClient):
    """An engine in memory, which has no payload indexes; it keeps those that it was asked for."""

    indexes: dict[str, object]

    async def create_payload_index(self, collection_name, field_name, field_schema=None, **_):
        self.indexes[field_name] = field_schema
        return qdrant.UpdateResult(status=qdrant.UpdateStatus.COMPLETED)


async def test_fields_that_are_filtered_by_have_an_index_of_their_kind():
    client = RecordingClient(":memory:")
    client.indexes = {}
    store = RestVectorStore(ServerNodes(":memory:", [client], 5), REST)
    await store.ensure_collection("knowledge", CollectionSpec(dim=4, keywords=("type",), numbers=("valid_from",)))
    await store.close()
    assert {key: schema.type for key, schema in client.indexes.items()} == {
        "project": qdrant.KeywordIndexType.KEYWORD,
        "type": qdrant.KeywordIndexType.KEYWORD,
        "valid_from": qdrant.FloatIndexType.FLOAT,
    }
    assert client.indexes["project"].is_tenant


POINT = models.PointStruct(id=point_id("a"), vector={"dense": [1.0, 0.0]}, payload={"project": "default"})


@pytest.fixture
async def memory() -> AsyncIterator[AsyncQdrantClient]:
    """An engine with the collection `tools`, to be served over gRPC."""
    client = AsyncQdrantClient(":memory:")
    params = qdrant.VectorParams(size=2, distance=qdrant.Distance.COSINE)
    await client.create_collection("tools", vectors_config={"dense": params})
    yield client
    await client.close()


async def test_over_grpc_the_key_travels_with_every_request_and_a_backfill_inserts_only(memory):
    async with serve_in_memory(memory) as (port, requests):
        server = ServerOptions("s3cret", grpc_port=port)
        async with open_vector_store(HOST, None, server=server, timeout_s=5) as store:
            await store.upsert("tools", [POINT], insert_only=True)
            assert await store.count("tools") == 1
            assert await store.resolve_alias("nothing") is None
            assert (await store.health()).ready
    assert [method for method, _, _ in requests] == ["Upsert", "Count", "ListAliases"]
    assert {metadata["api-key"] for _, _, metadata in requests} == {"s3cret"}
    assert requests[0][1].update_mode == 1  # InsertOnly


async def test_over_grpc_an_unknown_collection_is_missing(memory):
    async with (
        serve_in_memory(memory) as (port, _),
        open_vector_store(HOST, None, server=ServerOptions(grpc_port=port), timeout_s=5) as store,
    ):
        with pytest.raises(CollectionMissing):
            await store.count("nothing")


async def test_a_grpc_server_that_comes_up_serves_the_store_that_was_opened_before_it(memory):
    port = free_port()
    async with open_vector_store(HOST, None, server=ServerOptions(grpc_port=port), timeout_s=5) as store:
        with pytest.raises(VectorStoreUnavailable):
            await store.count("tools")
        async with serve_in_memory(memory, port):
            await eventually(store.health, lambda health: health.ready)
            assert await store.count("tools") == 0


async def test_a_call_goes_to_another_node_when_one_is_gone_or_hangs(memory):
    port = free_port()

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    urls = "http://127.0.0.2, http://127.0.0.3, http://127.0.0.1"
    options = ServerOptions(grpc_port=port)
    async with (
        serve_in_memory(memory, port) as (_, requests),
        tcp_server(port, swallow, "127.0.0.3"),
        open_vector_store(urls, None, server=options, timeout_s=3) as store,
    ):
        await store.upsert("tools", [POINT])
        assert [hit.id for hit in (await store.query("tools", [ASKED]))[0]] == [POINT.id]
    assert [method for method, _, _ in requests] == ["Upsert", "QueryBatch"]


ASKED = models.QueryRequest(query=[1.0, 0.0], using="dense", limit=1)


@pytest.mark.parametrize("urls", ["", " , ", "qdrant:6333", "ftp://qdrant", "http://"])
async def test_a_list_without_a_url_of_a_server_is_refused(urls):
    with pytest.raises(VectorStoreRejected, match="http://host:6333"):
        async with open_vector_store(urls, None):
            pass
