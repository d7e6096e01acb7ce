"""Two replicas of the agent on one bus, and one that starts no processes."""

from pathlib import Path

import pytest

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import McpServerState
from skillbus.contracts.errors import ErrorCode, RequestError

from .catalogue import AgentCatalogue
from .conftest import Agent


async def test_either_replica_calls_what_one_registered_and_neither_what_was_removed(
    bus: Bus, catalogue: AgentCatalogue, tmp_path: Path
) -> None:
    agent, settings = Agent(bus, catalogue), AgentSettings(data=tmp_path, stdio_servers=True)
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
    agent, settings = Agent(bus, catalogue), AgentSettings(data=tmp_path, stdio_servers=True)
    async with open_agent(bus, settings):
        await agent.start("hostile", "plain")
    async with open_agent(bus, settings):
        assert not (await agent.call("mcp:plain/read_file")).is_error


async def test_a_server_that_has_to_be_started_is_refused_unless_it_is_allowed(
    bus: Bus, catalogue: AgentCatalogue, tmp_path: Path
) -> None:
    agent = Agent(bus, catalogue)
    async with open_agent(bus, AgentSettings(data=tmp_path, stdio_servers=True)):
        await agent.start("hostile", "plain")
    async with open_agent(bus, AgentSettings(data=tmp_path)):
        with pytest.raises(RequestError) as caught:
            await agent.start("hostile", "other")
        assert caught.value.code is ErrorCode.FORBIDDEN
        assert "SKILLBUS_AGENT_STDIO_SERVERS" in caught.value.message
        # Nor is one that was registered while it was.
        server = await eventually(lambda: agent.server("plain"), lambda now: now.state is McpServerState.FAILED)
        assert "not allowed" in (server.problem or "")
