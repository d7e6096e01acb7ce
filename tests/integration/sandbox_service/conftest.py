"""The sandbox on a real nats-server, beside a catalogue written by hand."""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from pydantic import JsonValue

from skillbus.common.archive import PackedFile, pack_files
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import ObjectStore, open_object_store
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime, Skill
from skillbus.contracts.indexer.skills import GET_SKILL, SkillSelector
from skillbus.contracts.message import Content
from skillbus.contracts.resources import PACKAGES, RUN_FILES, make_package_name
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, SkillRan
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox


@dataclass(slots=True)
class Catalogue:
    """Skills and their packages, as an indexer would keep them."""

    packages: ObjectStore
    skills: dict[str, Skill] = field(default_factory=dict)

    async def put(
        self,
        name: str,
        script: str,
        *,
        args_mode: ArgsMode = ArgsMode.ARGV,
        schema: dict[str, JsonValue] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Skill:
        """A skill of one Python script."""
        files = {"SKILL.md": name, "main.py": script, **(more or {})}
        package = pack_files([PackedFile(path, text.encode()) for path, text in files.items()])
        digest = hashlib.sha256(package).hexdigest()
        entry = EntryPoint(
            action="run", script="main.py", runtime=Runtime.PYTHON, args_mode=args_mode, input_schema=schema
        )
        skill = Skill(
            name=name,
            description=name,
            digest=digest,
            content_digest=digest,
            size_bytes=len(package),
            entry_points=(entry,),
            default_action="run",
            installed_at=datetime.now(UTC),
            updated_at=datetime.now(UTC),
        )
        await self.packages.put(self.package_of(skill), package)
        self.skills[name] = skill
        return skill

    def package_of(self, skill: Skill) -> str:
        return make_package_name(skill.project, skill.name, skill.content_digest)

    async def get(self, request: SkillSelector) -> Skill:
        if request.name not in self.skills:
            raise RequestError(ErrorCode.SKILL_NOT_FOUND, f"No skill {request.name}.")
        return self.skills[request.name]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A running sandbox."""

    bus: Bus
    catalogue: Catalogue
    files: ObjectStore
    folder: Path

    async def run(self, name: str, timeout_s: float = 20.0, **request: object) -> SkillRan:
        asked = RunSkill.model_validate({"name": name, **request})
        return await self.bus.caller.call(RUN_SKILL, asked, timeout_s=timeout_s)

    async def bytes_of(self, content: Content) -> bytes:
        if content.inline is not None:
            return content.inline
        return await self.files.get(content.object_name or "", content.size_bytes)

    async def text_of(self, ran: SkillRan) -> str:
        return (await self.bytes_of(ran.stdout)).decode()

    def unpacked(self) -> set[str]:
        """Digests of the skills that lie unpacked; nothing else may lie there."""
        return {path.name for path in self.folder.iterdir()}


class OpenSandbox(Protocol):
    """Opens a sandbox with settings of its own."""

    def __call__(
        self, isolation: Isolation | None = None, **settings: float | str
    ) -> AbstractAsyncContextManager[Sandbox]: ...


@asynccontextmanager
async def serve_catalogue(bus: Bus) -> AsyncGenerator[Catalogue]:
    """Answer for the indexer."""
    opened = Catalogue(await open_object_store(bus, PACKAGES))
    responder = Responder(bus.client, "indexer", "0.1.0", bus.metrics)
    await responder.start(route(GET_SKILL, opened.get))
    yield opened
    await responder.drain()


@asynccontextmanager
async def open_real(bus: Bus, catalogue: Catalogue, folder: Path) -> AsyncGenerator[Sandbox]:
    """Open a sandbox with the real isolation; skip the test where the machine has none."""
    isolation = BubblewrapIsolation()
    try:
        await isolation.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
    async with open_sandbox(bus, SandboxSettings(data=folder / "sandbox"), isolation):
        yield Sandbox(bus, catalogue, await open_object_store(bus, RUN_FILES), folder / "sandbox" / "skills")


@pytest.fixture
async def catalogue(bus: Bus) -> AsyncGenerator[Catalogue]:
    async with serve_catalogue(bus) as opened:
        yield opened


@pytest.fixture
def open_one(bus: Bus, catalogue: Catalogue, tmp_path: Path) -> OpenSandbox:
    @asynccontextmanager
    async def begin(isolation: Isolation | None = None, **settings: float | str) -> AsyncGenerator[Sandbox]:
        folder = tmp_path / "sandbox"
        async with open_sandbox(bus, SandboxSettings.model_validate({"data": folder, **settings}), isolation):
            yield Sandbox(bus, catalogue, await open_object_store(bus, RUN_FILES), folder / "skills")

    return begin


@pytest.fixture
async def sandbox(bus: Bus, catalogue: Catalogue, tmp_path: Path) -> AsyncGenerator[Sandbox]:
    async with open_real(bus, catalogue, tmp_path) as opened:
        yield opened
