"""The agent on a real nats-server, beside a catalogue in memory, and servers to register."""

import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.contracts.agent import (
    CALL_TOOL,
    GET_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    CallTool,
    McpServer,
    McpServerRemoved,
    NameMcpServer,
    RegisterMcpServer,
    ToolCalled,
)

from .catalogue import Catalogue, catalogue_on

SERVERS = Path(__file__).parent / "servers"


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent, as its callers see it."""

    bus: Bus
    catalogue: Catalogue

    async def register(self, name: str, **given: object) -> McpServer:
        request = RegisterMcpServer.model_validate({"name": name, **given})
        return await self.bus.caller.call(REGISTER_MCP_SERVER, request)

    async def start(self, script: str, *args: str, **given: object) -> McpServer:
        """Register a server that is a script of ours, under the name of its first argument."""
        name = args[0].replace("_", "-") if args else script
        command = {"command": sys.executable, "args": [str(SERVERS / f"{script}.py"), *args]}
        return await self.register(name, **{"timeout_s": 3, **command, **given})

    async def server(self, name: str) -> McpServer:
        return await self.bus.caller.call(GET_MCP_SERVER, NameMcpServer(name=name))

    async def remove(self, name: str) -> McpServerRemoved:
        return await self.bus.caller.call(REMOVE_MCP_SERVER, NameMcpServer(name=name))

    async def call(self, tool_id: str, timeout_s: float | None = None, **arguments: object) -> ToolCalled:
        request = CallTool.model_validate({"id": tool_id, "arguments": arguments})
        return await self.bus.caller.call(CALL_TOOL, request, timeout_s=timeout_s)


@pytest.fixture
async def catalogue(bus: Bus) -> AsyncGenerator[Catalogue]:
    async with catalogue_on(bus) as opened:
        yield opened


@pytest.fixture
async def agent(bus: Bus, catalogue: Catalogue, tmp_path: Path) -> AsyncGenerator[Agent]:
    settings = AgentSettings(data=tmp_path / "agent", stdio_servers=True, secrets_folder=tmp_path / "secrets")
    async with open_agent(bus, settings):
        yield Agent(bus, catalogue)
