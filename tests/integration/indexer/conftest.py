"""An indexer on a real nats-server with Qdrant Edge, and an embedder whose model is quick."""

import hashlib
import io
import zipfile
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.contracts.indexer.skills import INSTALL_SKILL, InstallSkill, SkillInstalled
from skillbus.contracts.message import Content
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import VectorStore, open_vector_store

from .fake_embedder import FakeEmbedder, open_fake_embedder
from .fake_learner import FakeLearner, open_fake_learner


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
async def embedder(bus: Bus) -> AsyncGenerator[FakeEmbedder]:
    async with open_fake_embedder(bus) as fake:
        yield fake


@pytest.fixture
async def running(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder
) -> AsyncGenerator[Running]:
    async with open_indexer(bus, settings, store):
        yield Running(bus, store, settings.data)


@pytest.fixture
async def learner(bus: Bus) -> AsyncGenerator[FakeLearner]:
    async with open_fake_learner(bus) as fake:
        yield fake


@pytest.fixture
async def knowing(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder, learner: FakeLearner
) -> AsyncGenerator[Running]:
    """An indexer beside a learner."""
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
