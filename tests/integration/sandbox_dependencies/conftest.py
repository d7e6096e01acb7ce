"""LayerStore from an index on loopback, by the uv and npm of this machine."""

import os
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.packages.layer_builders import BuildLimits, LayerBuilder, NpmBuilder, UvBuilder, find_uv
from skillbus.sandbox.adapters.packages.layers import LayerStore, open_layers
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.limits import MIB
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec

from .indexes import Index, serving

PYTHON = Path("/usr/bin/python3")
NODE = Path("/usr/bin/node")

needs_uv = pytest.mark.skipif(find_uv() is None or not PYTHON.exists(), reason="uv or /usr/bin/python3 is not here")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None or not NODE.exists(), reason="npm or node is not here")


class Interpreters:
    """An isolation that runs nothing, and knows what the machine has."""

    def __init__(self, python: Path = PYTHON) -> None:
        self._python = python

    async def probe(self) -> IsolationReport:
        return IsolationReport(IsolationLevel.FULL, "none", {Runtime.PYTHON: self._python, Runtime.NODE: NODE})

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        raise AssertionError("nothing is run")


class OpenLayers(Protocol):
    """Opens layers with limits of their own; times in seconds, sizes in bytes."""

    def __call__(
        self, wall_s: float = 30, layer_bytes: int = 8 * MIB, total_bytes: int = 64 * MIB, url: str | None = None
    ) -> AbstractAsyncContextManager[LayerStore]: ...


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is on loopback, whatever the machine's proxies are."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def index() -> Iterator[Index]:
    with serving() as index:
        yield index


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where layers are kept: every user can walk to it, as to no folder of pytest's."""
    with TemporaryDirectory(prefix="skillbus-test-layers-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def open_them(index: Index, folder: Path) -> OpenLayers:
    @asynccontextmanager
    async def begin(
        wall_s: float = 30, layer_bytes: int = 8 * MIB, total_bytes: int = 64 * MIB, url: str | None = None
    ) -> AsyncGenerator[LayerStore]:
        limits = BuildLimits(wall_s, layer_bytes)
        builders: dict[Runtime, LayerBuilder] = {
            Runtime.PYTHON: UvBuilder(url or index.simple, limits),
            Runtime.NODE: NpmBuilder(url or index.npm, limits),
        }
        async with open_layers(folder, builders, total_bytes, Interpreters()) as layers:
            yield layers

    return begin


@pytest.fixture
def make_skill(tmp_path: Path) -> "MakeSkill":
    return MakeSkill(tmp_path / "skills")


class MakeSkill:
    """Writes skills into folders."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, name: str, files: Mapping[str, str]) -> Path:
        for path, text in files.items():
            target = self._root / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return self._root / name
