"""Embedder, indexer and retriever on a real nats-server with Qdrant Edge, and a model that knows a few words."""

import hashlib
import io
import zipfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.indexer.skills import INSTALL_SKILL, InstallSkill, SkillInstalled
from skillbus.contracts.message import Content
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import (
    CollectionSpec,
    Hit,
    PayloadFields,
    StoreHealth,
    VectorNames,
    VectorStore,
    VectorStoreUnavailable,
    models,
    open_vector_store,
)

from ...conftest import NATS_URL
from ...models import OnlyModel, embedder_in

_TOPICS = (("music", "song", "播放"), ("weather", "rain", "天气"), ("hotel", "room", "酒店"), ("file", "read", "文件"))


class TopicModel:
    """A dense model of four topics: texts with words of one topic are near each other, whatever the words."""

    spec = ModelSpec("test", "topics", "1", "none", len(_TOPICS) + 1, 2048, 4096, False)

    def load(self) -> None:
        return

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        rows = np.array([[0.1, *(sum(w in text.lower() for w in topic) for topic in _TOPICS)] for text in texts])
        unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit


class BrokenModel(TopicModel):
    """The same model, without its files."""

    def load(self) -> None:
        raise ModelUnavailableError("its files are missing")


class FailingStore:
    """A store that cannot be reached while it is `down`."""

    def __init__(self, inner: VectorStore) -> None:
        self.inner = inner
        self.down = False

    def _reached(self) -> VectorStore:
        if self.down:
            raise VectorStoreUnavailable("connection refused")
        return self.inner

    async def resolve_alias(self, alias: str) -> str | None:
        return await self._reached().resolve_alias(alias)

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        return await self._reached().query(collection, requests)

    async def retrieve(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> list[models.Record]:
        return await self._reached().retrieve(collection, ids, with_payload=with_payload, with_vectors=with_vectors)

    def get_revision(self, collection: str) -> int | None:
        return self.inner.get_revision(collection)

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        return await self._reached().count(collection, condition)

    async def health(self) -> StoreHealth:
        return StoreHealth(False, "Qdrant", ("connection refused",)) if self.down else await self.inner.health()

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        return await self._reached().ensure_collection(name, spec)

    async def delete_collection(self, name: str) -> bool:
        return await self._reached().delete_collection(name)

    async def list_collections(self) -> list[str]:
        return await self._reached().list_collections()

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        await self._reached().switch_aliases(targets)

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        await self._reached().upsert(collection, points, insert_only=insert_only)

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        await self._reached().delete(collection, selection)

    async def scroll(
        self,
        collection: str,
        *,
        condition: models.Filter | None = None,
        limit: int = 256,
        offset: str | None = None,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> tuple[list[models.Record], str | None]:
        return await self._reached().scroll(
            collection,
            condition=condition,
            limit=limit,
            offset=offset,
            with_payload=with_payload,
            with_vectors=with_vectors,
        )

    async def flush(self) -> None:
        await self._reached().flush()

    async def close(self) -> None:
        await self.inner.close()


@dataclass(frozen=True, slots=True)
class Running:
    """The three services, and the store behind them."""

    bus: Bus
    store: FailingStore
    data: Path

    async def install(
        self, name: str, description: str, *, tags: Iterable[str] = (), project: str = "default"
    ) -> SkillInstalled:
        package = _package(name, description, tags)
        content = Content(size_bytes=len(package), sha256=hashlib.sha256(package).hexdigest(), inline=package)
        return await self.bus.caller.call(INSTALL_SKILL, InstallSkill(project=project, package=content))

    async def search(self, query: str, **more: object) -> ToolsFound:
        return await self.bus.caller.call(SEARCH_TOOLS, SearchTools.model_validate({"query": query, **more}))

    async def found(self, query: str, **more: object) -> list[str]:
        return [hit.name for hit in (await self.search(query, **more)).results]


def _package(name: str, description: str, tags: Iterable[str]) -> bytes:
    metadata = f'metadata:\n  tags: "{", ".join(tags)}"\n' if tags else ""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{name}/SKILL.md", f"---\nname: {name}\ndescription: {description}\n{metadata}---\n")
    return stream.getvalue()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bus(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Bus]:
    """A bus with the embedder on it, for all tests of a module. They must not change what it keeps."""
    if NATS_URL is not None:
        pytest.skip("the server of SKILLBUS_TEST_NATS_URL is emptied for each test")
    folder = tmp_path_factory.mktemp("shared")
    async with open_nats_server(folder / "nats") as server:
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        async with open_bus(settings, "test", CollectorRegistry()) as opened:
            await provision(opened.jetstream)
            async with open_embedder(opened, embedder_in(folder), OnlyModel(TopicModel())):
                yield opened


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[FailingStore]:
    async with open_vector_store(None, tmp_path / "vectors") as opened:
        yield FailingStore(opened)


@pytest.fixture
def settings(tmp_path: Path) -> IndexerSettings:
    return IndexerSettings(data=tmp_path / "data", reconcile_every_s=3600)


@pytest.fixture
async def running(bus: Bus, store: FailingStore, settings: IndexerSettings) -> AsyncGenerator[Running]:
    async with (
        open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())),
        open_indexer(bus, settings, store),
        open_retriever(bus, RetrieverSettings(), store),
    ):
        yield Running(bus, store, settings.data)
