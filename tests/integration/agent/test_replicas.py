"""Two replicas of the agent on one bus, with one file of MCP servers."""

from pathlib import Path

import pytest

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.contracts.agent.mcp_servers import McpServerState
from skillbus.contracts.errors import ErrorCode, RequestError

from .catalogue import AgentCatalogue
from .conftest import Agent


async def test_either_replica_calls_what_one_registered_and_neither_what_was_removed(
    bus: Bus, catalogue: AgentCatalogue, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    agent, settings = Agent(bus, catalogue, file), AgentSettings(data=tmp_path, mcp_file=file)
    async with open_agent(bus, settings), open_agent(bus, settings):
        assert (await agent.start("hostile", "plain")).state is McpServerState.CONNECTED
        pids = {(await agent.call("mcp:plain/read_file")).text.rpartition(" ")[2] for _ in range(20)}
        assert len(pids) == 2

        await agent.remove("plain")
        assert catalogue.names("mcp:plain") == []
        for _ in range(5):
            with pytest.raises(RequestError) as caught:
                await agent.call("mcp:plain/read_file")
            assert caught.value.code is ErrorCode.NOT_FOUND


async def test_what_is_registered_outlives_a_restart(bus: Bus, catalogue: AgentCatalogue, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    agent, settings = Agent(bus, catalogue, file), AgentSettings(data=tmp_path, mcp_file=file)
    async with open_agent(bus, settings):
        await agent.start("hostile", "plain")
    async with open_agent(bus, settings):
        assert not (await agent.call("mcp:plain/read_file")).is_error
