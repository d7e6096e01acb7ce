"""An indexer on a real nats-server with Qdrant Edge, and an embedder whose model is quick."""

import hashlib
import io
import zipfile
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from skillbus.common.bus.connection import Bus
from skillbus.contracts.embedder import Role
from skillbus.contracts.indexer import INSTALL_SKILL, InstallSkill, SkillInstalled
from skillbus.contracts.message import Content
from skillbus.embedder.domain.model import ModelSpec
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import VectorStore, open_vector_store


class HashModel:
    """A dense model that knows only whether two texts are the same."""

    def __init__(self, revision: str = "1") -> None:
        self.spec = ModelSpec("test", "hash", revision, "none", 16, 2048, 4096, False)

    def load(self) -> None:
        return

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        rows = np.stack([np.frombuffer(hashlib.sha512(text.encode()).digest(), "<i4") for text in texts])
        return (rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Running:
    bus: Bus
    store: VectorStore
    data: Path

    async def install(self, package: bytes, project: str = "default") -> SkillInstalled:
        content = Content(size_bytes=len(package), sha256=hashlib.sha256(package).hexdigest(), inline=package)
        return await self.bus.caller.call(INSTALL_SKILL, InstallSkill(project=project, package=content))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[VectorStore]:
    async with open_vector_store(None, tmp_path / "vectors") as opened:
        yield opened


@pytest.fixture
def settings(tmp_path: Path) -> IndexerSettings:
    return IndexerSettings(data=tmp_path / "data", reconcile_every_s=3600)


@pytest.fixture
async def embedder(bus: Bus) -> AsyncGenerator[None]:
    async with open_embedder(bus, EmbedderSettings(), HashModel()):
        yield


@pytest.fixture
async def running(bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: None) -> AsyncGenerator[Running]:
    async with open_indexer(bus, settings, store):
        yield Running(bus, store, settings.data)


Package = Callable[..., bytes]


@pytest.fixture
def package() -> Package:
    """Makes a skill package."""

    def make(name: str = "say-hello", description: str = "Says hello.", files: dict[str, str] | None = None) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr(f"{name}/SKILL.md", skill_md(name, description))
            for path, text in (files or {"scripts/main.py": "print('hello')\n"}).items():
                archive.writestr(f"{name}/{path}", text)
        return stream.getvalue()

    return make


def skill_md(name: str, description: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n"
