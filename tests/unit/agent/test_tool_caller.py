"""Which tools may be called, and with what."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from pydantic import JsonValue

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTools, make_tool
from skillbus.agent.domain.errors import (
    ArgumentsInvalidError,
    CallTimedOutError,
    ServerFailedError,
    ServerUnknownError,
    ToolExternalError,
    ToolNotCallableError,
    ToolUnknownError,
)
from skillbus.agent.domain.servers.follower import FollowTiming
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.agent.domain.tool_caller import ToolCaller
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer
from skillbus.contracts.indexer.tools import ToolDescription, ToolState

from .fakes import QUICK, RAW, WAIT_S, World

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": "(a+)+$"}},
    "required": ["path"],
}


class WaitArguments(BuiltinArguments):
    seconds: float


async def wait(project: str, arguments: WaitArguments) -> ToolAnswer:
    await asyncio.sleep(arguments.seconds)
    return ToolAnswer(text=f"{project} wait")


BUILTINS = BuiltinTools([make_tool(BuiltinProfile("wait", "Wait.", "等待。", (), ()), WaitArguments, wait)])


@pytest.fixture
def world() -> World:
    found = World()
    found.server.tools = [{"name": "read", "inputSchema": SCHEMA}]
    return found


@pytest.fixture
async def caller(world: World) -> AsyncGenerator[ToolCaller]:
    servers = ServerRegistry(world.ports(), QUICK)
    async with servers.follow_all(world.changes):
        await servers.register(RAW, WAIT_S)
        yield ToolCaller(world.catalogue, servers, BUILTINS)


async def test_a_tool_is_called_by_its_own_name(world: World, caller: ToolCaller) -> None:
    assert (await caller.call("default", "mcp:raw/read", {"path": "aa"}, WAIT_S)).text == "read"
    assert world.server.calls == [("read", {"path": "aa"})]


async def test_the_argument_schema_of_a_stranger_costs_no_more_than_it_should(world: World, caller: ToolCaller) -> None:
    with pytest.raises(ArgumentsInvalidError) as caught:
        await caller.call("default", "mcp:raw/read", {"path": "a" * 60_000 + "b"}, WAIT_S)
    assert (caught.value.path, world.server.calls) == ("$.path", [])


@pytest.mark.parametrize("state", [ToolState.QUARANTINED, ToolState.DISABLED])
async def test_a_tool_that_is_not_active_is_not_called(world: World, caller: ToolCaller, state: ToolState) -> None:
    key = ("default", "mcp:raw/read")
    world.catalogue.kept[key] = world.catalogue.kept[key][0], state
    with pytest.raises(ToolNotCallableError):
        await caller.call("default", "mcp:raw/read", {"path": "a"}, WAIT_S)
    assert world.server.calls == []


async def test_an_external_tool_is_not_callable_and_names_its_provider(world: World, caller: ToolCaller) -> None:
    external = ToolDescription(id="lab.invoice", name="invoice", source="lab", provider="Acme")
    await world.catalogue.put_tools("default", "lab", [external])
    with pytest.raises(ToolExternalError) as refused:
        await caller.call("default", "lab.invoice", {}, WAIT_S)
    assert refused.value.provided_by == "Acme"


async def test_a_tool_of_another_project_is_not_there(caller: ToolCaller) -> None:
    with pytest.raises(ToolUnknownError):
        await caller.call("other", "mcp:raw/read", {"path": "a"}, WAIT_S)


async def test_a_catalogued_tool_whose_server_is_gone_cannot_be_called(world: World, caller: ToolCaller) -> None:
    world.store.kept.clear()
    with pytest.raises(ServerUnknownError):
        await caller.call("default", "mcp:raw/read", {"path": "a"}, WAIT_S)


async def test_a_server_that_is_away_is_tried_at_once_and_told(world: World) -> None:
    slow = ServerRegistry(world.ports(), FollowTiming(first_retry_s=3600, last_retry_s=3600))
    async with slow.follow_all(world.changes):
        await slow.register(RAW, WAIT_S)
        world.server.fails = "no route"
        world.server.on_change()
        caller = ToolCaller(world.catalogue, slow, BUILTINS)
        with pytest.raises(ServerFailedError, match="no route"):
            await caller.call("default", "mcp:raw/read", {"path": "a"}, WAIT_S)
        world.server.fails = None
        assert (await caller.call("default", "mcp:raw/read", {"path": "a"}, WAIT_S)).text == "read"


async def test_a_builtin_is_called_for_its_project_within_its_time(caller: ToolCaller) -> None:
    assert (await caller.call("other", "builtin:wait", {"seconds": 0}, WAIT_S)).text == "other wait"
    with pytest.raises(CallTimedOutError):
        await caller.call("other", "builtin:wait", {"seconds": 60}, 0.05)
    with pytest.raises(ArgumentsInvalidError):
        await caller.call("other", "builtin:wait", {"seconds": "long"}, WAIT_S)
    with pytest.raises(ToolUnknownError):
        await caller.call("other", "builtin:nothing", {}, WAIT_S)


def test_a_registration_has_an_address_and_no_command() -> None:
    for given, said in (({}, "url"), ({"url": "http://a/mcp", "command": "a"}, "skillbus mcp add NAME -- COMMAND")):
        with pytest.raises(ValueError, match=said):
            RegisterMcpServer.model_validate({"name": "raw", **given})
