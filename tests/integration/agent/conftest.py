"""The agent on a real nats-server, beside a catalogue in memory, and servers to register."""

import shutil
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.mcp_file import add_script, remove_server

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    REGISTER_MCP_SERVER,
    McpServer,
    McpServerSelector,
    RegisterMcpServer,
)
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool, ToolCalled

from .catalogue import AgentCatalogue, catalogue_on

NPM_PACKAGE = "@modelcontextprotocol/server-everything"
SERVERS = Path(__file__).parent / "servers"


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent, as its callers see it."""

    bus: Bus
    catalogue: AgentCatalogue
    mcp_file: Path

    async def register(self, name: str, **given: object) -> McpServer:
        request = RegisterMcpServer.model_validate({"name": name, **given})
        return await self.bus.caller.call(REGISTER_MCP_SERVER, request)

    async def start(self, script: str, *args: str, **given: JsonValue) -> McpServer:
        """Add a server that is a script of ours to the file, under the name of its first argument."""
        name = args[0].replace("_", "-") if args else script
        words = (SERVERS / f"{script}.py", *args)
        limits: dict[str, JsonValue] = {"timeout_s": 3, "start_timeout_s": 20}
        return await add_script(self.bus.caller, self.mcp_file, name, words, **limits | given)

    async def server(self, name: str) -> McpServer:
        return await self.bus.caller.call(GET_MCP_SERVER, McpServerSelector(name=name))

    async def remove(self, name: str) -> None:
        await remove_server(self.bus.caller, self.mcp_file, name)

    async def call(self, tool_id: str, timeout_s: float | None = None, **arguments: object) -> ToolCalled:
        request = CallTool.model_validate({"id": tool_id, "arguments": arguments})
        return await self.bus.caller.call(CALL_TOOL, request, timeout_s=timeout_s)


@pytest.fixture
async def catalogue(bus: Bus) -> AsyncGenerator[AgentCatalogue]:
    async with catalogue_on(bus) as opened:
        yield opened


@pytest.fixture
async def agent(bus: Bus, catalogue: AgentCatalogue, tmp_path: Path) -> AsyncGenerator[Agent]:
    file = tmp_path / "mcp.json"
    settings = AgentSettings(
        data=tmp_path / "agent",
        mcp_file=file,
        secrets="MCP_KEY=http://127.0.0.1; THEIR_KEY=stdio; NO_SUCH_VARIABLE=stdio; file:key=stdio",
        secrets_folder=tmp_path / "secrets",
        private_addresses="127.0.0.1",
    )
    async with open_agent(bus, settings):
        yield Agent(bus, catalogue, file)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a server that others wrote in another language, installed for this run."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("npm")
    try:
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), NPM_PACKAGE],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not install the package in time")
    if done.returncode != 0:
        pytest.skip(f"npm cannot install {NPM_PACKAGE}: {done.stderr[-300:]}")
    return folder / "node_modules" / NPM_PACKAGE / "dist" / "index.js"
