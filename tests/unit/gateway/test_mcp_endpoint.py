"""Access to `/mcp` and its limits. What the tools do is tried in `tests/e2e/test_mcp_endpoint.py`."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from skillbus.common.bus import headers as bus_headers
from skillbus.common.testing import eventually
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool, ToolCalled
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.gateway.sessions import CSRF_HEADER
from skillbus.contracts.indexer.devices import LIST_HOMES, HomesListed, HomeSummary
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.command_resolution import RESOLVE_COMMAND, CommandResolved, ResolveCommand
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, ToolsFound
from skillbus.gateway.adapters.mcp.endpoint import McpEndpoint, open_mcp_endpoint
from skillbus.gateway.adapters.mcp.session_places import SESSIONS_OF_KEY
from skillbus.gateway.adapters.mcp.tools import MCP_TOOLS
from skillbus.gateway.settings import GatewaySettings

from .fakes import KEY, FakeObjects, FakeStored, World

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = GatewaySettings(body_bytes=10_000, run_body_bytes=50_000, requests_per_minute=200)
ACCEPT = {"Accept": "application/json, text/event-stream"}
ARGUMENTS: dict[str, dict[str, object]] = {
    "search_tools": {"query": "q"},
    "call_tool": {"id": "builtin:calculate"},
    "run_skill": {"name": "calculate"},
    "search_knowledge": {"query": "q"},
    "build_context": {"query": "q"},
    "suggest_knowledge": {"title": "t", "content": "c"},
    "resolve_command": {"text": "打开灯"},
}
NEEDED_ROLES = {"call_tool": Role.RUNNER, "run_skill": Role.RUNNER, "suggest_knowledge": Role.RUNNER}
"""Roles of the tools that need more than a reader."""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint() -> AsyncGenerator[McpEndpoint]:
    async with open_mcp_endpoint(SETTINGS.body_bytes, SETTINGS.run_body_bytes) as opened:
        yield opened


@pytest.fixture
def world(endpoint: McpEndpoint) -> World:
    return World(SETTINGS, key=KEY, mcp=endpoint)


async def send(client: httpx.AsyncClient, message: object, session: str | None = None) -> httpx.Response:
    headers = ACCEPT if session is None else {**ACCEPT, "mcp-session-id": session}
    return await client.post("/mcp", json=message, headers=headers)


async def open_session(client: httpx.AsyncClient) -> str:
    opened = await send(client, INITIALIZE)
    assert opened.status_code == 200, opened.text
    session: str = opened.headers["mcp-session-id"]
    await send(client, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    return session


async def try_opening(client: httpx.AsyncClient) -> str:
    """Return a session; empty if the key has too many."""
    return str((await send(client, INITIALIZE)).headers.get("mcp-session-id", ""))


async def request(client: httpx.AsyncClient, session: str, method: str, **params: object) -> dict[str, Any]:
    answer = await send(client, {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}, session)
    text = answer.text
    if answer.headers["content-type"] == "text/event-stream":
        (text,) = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    message: dict[str, Any] = json.loads(text)
    return message


async def test_a_key_uses_the_tools_of_its_role_and_no_others(world: World) -> None:
    assert ARGUMENTS.keys() == {tool.name for tool in MCP_TOOLS}
    for role in Role:
        async with world.client(world.add_key(role, "team")) as client:
            session = await open_session(client)
            for name, arguments in ARGUMENTS.items():
                result = (await request(client, session, "tools/call", name=name, arguments=arguments))["result"]
                code = result["content"][0]["text"].partition(":")[0]
                may = role.includes(NEEDED_ROLES.get(name, Role.READER))
                assert (result["isError"], code) == (True, "unavailable" if may else "forbidden"), (role, name)


async def test_calls_are_streamed_and_other_requests_get_plain_json(world: World) -> None:
    numbers = itertools.count(2)

    async def find_form(method: str, **params: object) -> str:
        message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
        answer = await send(client, message, session)
        assert answer.status_code == 200, answer.text
        return answer.headers["content-type"].partition("/")[2]

    async with world.client(world.add_key(Role.READER, "team")) as client:
        session = await open_session(client)
        calls = {name: await find_form("tools/call", name=name, arguments=ARGUMENTS[name]) for name in ARGUMENTS}
        others = {await find_form(method) for method in ("ping", "tools/list", "resources/templates/list")}
        run = {"name": "run_skill", "arguments": {"name": "x"}}
        together = await asyncio.gather(find_form("tools/call", **run), find_form("ping"))
    long = {"call_tool", "run_skill"}
    assert calls == {name: "event-stream" if name in long else "json" for name in ARGUMENTS}
    assert (others, list(together)) == ({"json"}, ["event-stream", "json"])


async def test_arguments_of_a_call_are_named_as_by_the_command_line_too(world: World) -> None:
    calls = list[Message]()

    def call(request: Message) -> Message:
        calls.append(request)
        return ToolCalled(id="skill:x", run_id="0" * 32, duration_ms=1)

    world.caller.on(CALL_TOOL, call)
    async with world.client(world.add_key(Role.RUNNER, "team")) as client:
        session = await open_session(client)
        for word in ("arguments", "args"):
            await request(client, session, "tools/call", name="run_skill", arguments={"name": "x", word: {"n": 1}})
        (schema,) = (
            tool["inputSchema"]["properties"]
            for tool in (await request(client, session, "tools/list"))["result"]["tools"]
            if tool["name"] == "run_skill"
        )
    assert [call.arguments for call in calls if isinstance(call, CallTool)] == [{"n": 1}, {"n": 1}]
    assert {"arguments", "args"} & schema.keys() == {"arguments"}


async def test_a_spoken_command_is_resolved_in_the_only_home_and_in_the_dialogue_of_the_session(world: World) -> None:
    def resolve(request: Message) -> Message | Exception:
        assert isinstance(request, ResolveCommand)
        asked.append(request)
        if request.home != "villa":
            return RequestError(ErrorCode.NOT_FOUND, "There is no such home.")
        return CommandResolved(results=(), parsed_by="rules", took_ms=1)

    asked = list[ResolveCommand]()
    homes = HomesListed(homes=(HomeSummary(home="villa", devices=1, rooms=1),), total=1)
    world.caller.on(LIST_HOMES, lambda _: homes)
    world.caller.on(RESOLVE_COMMAND, resolve)
    async with world.client(world.add_key(Role.READER, "team")) as client:
        session = await open_session(client)
        for arguments in ({}, {"home": "villa", "room": "书房", "session": "me"}):
            call = {"text": "打开灯", **arguments}
            answer = await request(client, session, "tools/call", name="resolve_command", arguments=call)
            assert answer["result"]["structuredContent"]["results"] == []
        wrong = {"text": "打开灯", "home": "vila"}
        refused = (await request(client, session, "tools/call", name="resolve_command", arguments=wrong))["result"]
    assert [(one.project, one.home, one.room, one.session) for one in asked] == [
        ("team", "villa", None, session),
        ("team", "villa", "书房", "me"),
        ("team", "vila", None, session),
    ]
    text = refused["content"][0]["text"]
    assert (refused["isError"], text) == (True, "not_found: there is no home 'vila': the project has villa")


async def test_only_keys_and_sessions_with_their_token_are_let_in(world: World, endpoint: McpEndpoint) -> None:
    async with world.client("wrong") as stranger:
        assert (await send(stranger, INITIALIZE)).status_code == 401
    async with world.client() as client:
        login = await client.post("/api/session")
        cookie = {"Cookie": login.headers["Set-Cookie"].partition(";")[0], **ACCEPT}
        token = {CSRF_HEADER: login.json()["csrf_token"]}
        del client.headers["Authorization"]
        forged = await client.post("/mcp", json=INITIALIZE, headers=cookie)
        own = await client.post("/mcp", json=INITIALIZE, headers=cookie | token)
        assert (forged.status_code, forged.json()["code"], own.status_code) == (403, "forbidden", 200)
    async with World(SETTINGS, mcp=endpoint).client() as local:
        for header in ({"Host": "rebound.example:8080"}, {"Origin": "https://page.example"}):
            refused = await local.post("/mcp", json=INITIALIZE, headers=ACCEPT | header)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), header
        assert (await send(local, INITIALIZE)).status_code == 200


async def test_only_keys_that_may_run_skills_send_large_bodies(world: World) -> None:
    async def stream(body: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(body), 5_000):
            yield body[at : at + 5_000]

    large = json.dumps({**INITIALIZE, "x": "y" * 2 * SETTINGS.body_bytes}).encode()
    headers = {**ACCEPT, "Content-Type": "application/json"}
    async with world.client(world.add_key(Role.READER, "team")) as reader:
        for content in (large, stream(large)):
            refused = await reader.post("/mcp", content=content, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")
            assert "role runner" in refused.json()["detail"]
    async with world.client(world.add_key(Role.RUNNER, "team")) as runner:
        assert (await runner.post("/mcp", content=large, headers=headers)).status_code == 200
        larger = await runner.post("/mcp", content=stream(large * 3), headers=headers)
        assert (larger.status_code, larger.json()["code"]) == (413, "payload_too_large")


async def test_requests_are_counted_as_those_of_the_key(world: World) -> None:
    async with world.client(world.add_key(Role.READER, "team")) as client:
        answers = [await client.get("/mcp")]
        while answers[-1].status_code == 405 and len(answers) < 10 * SETTINGS.requests_per_minute:
            answers.append(await client.get("/mcp"))
        refused = answers[-1]
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1


async def test_a_key_has_so_many_sessions_and_gets_another_when_one_has_ended(world: World) -> None:
    async with world.client(world.add_key(Role.READER, "team")) as client:
        sessions = [(await send(client, INITIALIZE)).headers["mcp-session-id"] for _ in range(SESSIONS_OF_KEY - 1)]
        not_first = await send(client, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert not_first.status_code == 400  # and holds no place
        sessions.append(await eventually(lambda: try_opening(client), bool))  # the SDK ends a session in a task
        refused = await send(client, INITIALIZE)
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert f"{SESSIONS_OF_KEY} MCP sessions" in refused.json()["detail"]
        assert (await send(client, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, sessions[0])).status_code == 200
        async with world.client(world.add_key(Role.READER, "team")) as other:
            assert (await send(other, INITIALIZE)).status_code == 200
        ended = await client.delete("/mcp", headers={"mcp-session-id": sessions[0]})
        assert ended.status_code == 200
        assert await eventually(lambda: try_opening(client), bool)
    async with world.client() as owner:
        for _ in range(SESSIONS_OF_KEY + 1):
            assert (await send(owner, INITIALIZE)).status_code == 200


@dataclass
class LargeStored(FakeStored):
    """File of 64 MiB that counts what was read of it."""

    data: bytes = bytes(1 << 20)
    read: int = 0

    async def _pieces(self) -> AsyncGenerator[bytes]:
        while self.read < 64:
            self.read += 1
            await asyncio.sleep(0)
            yield self.data


@dataclass
class LargeObjects(FakeObjects):
    large: LargeStored = field(default_factory=LargeStored)

    async def open(self, name: str, max_bytes: int) -> FakeStored:
        return self.large if name.endswith("large.bin") else await super().open(name, max_bytes)


async def test_a_file_that_is_too_large_for_a_resource_is_left_unread_and_named_by_its_link(world: World) -> None:
    run_id, world.run_files = "0" * 32, (files := LargeObjects())
    files.held[f"calls/team/{run_id}/small.txt"] = "小".encode()
    async with world.client(world.add_key(Role.READER, "team")) as client:
        session = await open_session(client)
        small = await request(client, session, "resources/read", uri=f"skillbus://calls/{run_id}/small.txt")
        assert small["result"]["contents"][0]["text"] == "小"
        large = await request(client, session, "resources/read", uri=f"skillbus://calls/{run_id}/large.bin")
    assert (
        f"payload_too_large: the file is larger than 4 MiB: fetch it over HTTP, GET /api/calls/{run_id}/files/"
        in (large["error"]["message"])
    )
    assert files.large.read < 10


async def test_a_call_has_the_trace_of_its_own_request(world: World) -> None:
    traces = list[str]()

    def search(_: Message) -> Message:
        traces.append(str(bus_headers.traceparent.get()))
        return ToolsFound(results=(), took_ms=1)

    world.caller.on(SEARCH_TOOLS, search)
    async with world.client(world.add_key(Role.READER, "team")) as client:
        session = await open_session(client)
        for number in range(1, 3):
            trace = f"00-{number:032x}-{1:016x}-00"
            client.headers["traceparent"] = trace
            await request(client, session, "tools/call", name="search_tools", arguments={"query": "q"})
            assert traces[-1] == trace
