"""The engines that the contract suite runs on."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

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
    else:
        url, path = (SERVER_URL, None) if engine == "server" else (None, directory / "vectors")
        async with open_vector_store(url, path, server=ServerOptions(grpc_port=GRPC_PORT), timeout_s=30) as opened:
            yield opened


@pytest.fixture
def edge_path(tmp_path: Path) -> Path:
    return tmp_path / "vectors"
