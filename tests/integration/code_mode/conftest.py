"""A sandbox with the real isolation and an agent on a real nats-server, beside a catalogue in memory."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from tests.integration.agent.catalogue import AgentCatalogue, catalogue_on
from tests.integration.sandbox_service.conftest import Catalogue

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.provision import provision
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import eventually
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool, ToolCalled
from skillbus.contracts.indexer.skills import GET_SKILL
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.resources import PACKAGES
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolHit, ToolsFound
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.nats_server import open_nats_server

CALLS = 40
"""Tool calls that a program may make here."""


@dataclass(frozen=True, slots=True)
class CodeMode:
    """Running services, as the callers of the tool see them."""

    bus: Bus
    tools: AgentCatalogue
    skills: Catalogue
    searches: list[SearchTools] = field(default_factory=list)

    async def call(
        self, code: str, *, timeout_s: float | None = None, language: str = "python", **given: object
    ) -> ToolCalled:
        arguments = {"code": code, "language": language, **({} if timeout_s is None else {"timeout_s": timeout_s})}
        request = CallTool.model_validate({"id": "builtin:run_code", "arguments": arguments, **given})
        return await self.bus.caller.call(CALL_TOOL, request)

    async def list_builtins(self) -> list[str]:
        return self.tools.names("builtin")

    async def search(self, request: SearchTools) -> ToolsFound:
        self.searches.append(request)
        hit = ToolHit(
            id="builtin:calculate",
            name="calculate",
            description="",
            score=0.9,
            cosine=0.9,
            tool_type=ToolType.BUILTIN,
            metadata={},
        )
        return ToolsFound(results=(hit,), took_ms=1.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def code_mode(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[CodeMode]:
    folder: Path = tmp_path_factory.mktemp("code-mode")
    async with BubblewrapIsolation(warm=1) as isolation, open_nats_server(folder / "nats") as server:
        try:
            await isolation.probe()
        except SandboxUnavailable as unavailable:
            pytest.skip(f"no sandbox on this machine: {unavailable}")
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        async with open_bus(settings, "tests", CollectorRegistry()) as bus:
            await provision(bus.jetstream)
            skills = Catalogue(await open_object_store(bus, PACKAGES))
            async with catalogue_on(bus) as tools:
                opened = CodeMode(bus, tools, skills)
                responder = Responder(bus.client, "retriever", "0.0.0", bus.metrics)
                await responder.start(route(SEARCH_TOOLS, opened.search), route(GET_SKILL, skills.get))
                sandbox = SandboxSettings(data=folder / "sandbox", slots=1, program_slots=1)
                agent = AgentSettings(data=folder / "agent", program_calls=CALLS, program_calls_mib=1)
                async with open_sandbox(bus, sandbox, isolation), open_agent(bus, agent):
                    await eventually(opened.list_builtins, lambda names: "run_code" in names)
                    yield opened
                await responder.drain()
