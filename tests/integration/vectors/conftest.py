"""The engines that the contract suite runs on."""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from skillbus.standalone.workers.channel import open_channel
from skillbus.standalone.workers.store_copy import COPY_STORE, CopiedVectorStore, StoreCopy
from skillbus.vectors import VectorStore, open_vector_store
from skillbus.vectors.server.grpc_store import GrpcVectorStore, open_grpc_node
from skillbus.vectors.server.nodes import ServerNodes
from skillbus.vectors.server.rest_store import RestVectorStore
from skillbus.vectors.server_options import ServerOptions

from .memory_server import serve_in_memory

SERVER_URL = os.environ.get("SKILLBUS_TEST_QDRANT_URL")
GRPC_PORT = int(os.environ.get("SKILLBUS_TEST_QDRANT_GRPC_PORT", "6334"))
"""0 tries REST alone: a stand-in for the server may have nothing else."""


@dataclass(frozen=True, slots=True)
class Place:
    """A store and names in it that no other test uses: a real server is shared."""

    store: VectorStore
    prefix: str

    def name(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"


@pytest.fixture(
    params=[
        "edge",
        "copy of edge",
        *(
            pytest.param(name, marks=pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"))
            for name in ("in-memory client", "in memory over gRPC")
        ),
        pytest.param(
            "server",
            marks=pytest.mark.skipif(SERVER_URL is None, reason="SKILLBUS_TEST_QDRANT_URL names no Qdrant server"),
        ),
    ]
)
async def place(request: pytest.FixtureRequest, memory_path: Path) -> AsyncIterator[Place]:
    async with _opened(request.param, memory_path) as store:
        place = Place(store, f"t{uuid4().hex}")
        try:
            yield place
        finally:
            for name in await store.list_collections():
                if name.startswith(place.prefix):
                    await store.delete_collection(name)


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory in memory where there is one: the contract is about answers, and a busy disk takes 1 s a test."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


class CopyReader:
    """A `VectorStore` that is read from a copy, as a worker of `skillbus up` reads it, and written at its source."""

    def __init__(self, source: CopiedVectorStore, copy: VectorStore) -> None:
        self.ensure_collection, self.delete_collection = source.ensure_collection, source.delete_collection
        self.switch_aliases, self.upsert, self.delete = source.switch_aliases, source.upsert, source.delete
        self.flush, self.close = source.flush, source.close
        self.resolve_alias, self.query, self.retrieve = copy.resolve_alias, copy.query, copy.retrieve
        self.get_revision, self.count, self.health = copy.get_revision, copy.count, copy.health
        self.list_collections, self.scroll = copy.list_collections, copy.scroll


@asynccontextmanager
async def _open_copy(directory: Path) -> AsyncIterator[CopyReader]:
    ends = socket.socketpair()
    async with AsyncExitStack() as stack:
        path = directory / "vectors"
        source = CopiedVectorStore(await stack.enter_async_context(open_vector_store(None, path)), path)

        async def add_copy(target: Path) -> None:
            await source.add_copy(target, main)

        copy = StoreCopy(partial(open_vector_store, None))
        main = await stack.enter_async_context(open_channel(ends[0], {COPY_STORE: add_copy}))
        worker = await stack.enter_async_context(open_channel(ends[1], copy.list_handlers()))
        yield CopyReader(source, await stack.enter_async_context(copy.open_copy(worker, directory / "copy")))


@asynccontextmanager
async def _opened(engine: str, directory: Path) -> AsyncIterator[VectorStore]:
    memory = AsyncQdrantClient(":memory:")
    rest = ServerNodes(":memory:", [memory], 30)
    if engine == "in-memory client":
        store = RestVectorStore(rest, ServerOptions())
        yield store
        await store.close()
    elif engine == "in memory over gRPC":
        async with serve_in_memory(memory) as (port, _):
            node = open_grpc_node("http://127.0.0.1", port, None)
            over_grpc = GrpcVectorStore(rest, ServerNodes("127.0.0.1", [node], 30), ServerOptions())
            yield over_grpc
            await over_grpc.close()
    elif engine == "copy of edge":
        async with _open_copy(directory) as copied:
            yield copied
    else:
        url, path = (SERVER_URL, None) if engine == "server" else (None, directory / "vectors")
        async with open_vector_store(url, path, server=ServerOptions(grpc_port=GRPC_PORT), timeout_s=30) as opened:
            yield opened


@pytest.fixture
def edge_path(tmp_path: Path) -> Path:
    return tmp_path / "vectors"
