"""skillbus as an MCP server at `/mcp`, used with the client of the SDK."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from mcp import types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl
from tests.mcp_file import add_entry, remove_server

from skillbus.cli.tools.mcp_bridge import McpBridge
from skillbus.common.archive import PackedFile, pack_files
from skillbus.common.testing import eventually

from .conftest import Json, System

pytestmark = pytest.mark.asyncio(loop_scope="module")

_SKILL = """---
name: painter
description: Paints a picture and lingers on request. 画图
metadata:
  skillbus-entry: main.py
  skillbus-args: argv
  skillbus-entry.count: count.py
  skillbus-description.count: Counts to three.
---
Read notes/more.md.
"""
_SCRIPT = """
import base64, os, pathlib, sys, time
out = pathlib.Path(os.environ["SKILLBUS_OUT"])
(out / "dot.png").write_bytes(b"PNG")
(out / "a b.bin").write_bytes(b"\\xff\\x00")
print("painting", flush=True)
if "--linger" in sys.argv: time.sleep(60)
print("done")
"""
TOOLS = {
    "search_tools",
    "call_tool",
    "run_skill",
    "search_knowledge",
    "build_context",
    "suggest_knowledge",
    "resolve_command",
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def painter(system: System) -> None:
    files = {"SKILL.md": _SKILL, "main.py": _SCRIPT, "count.py": "print('1 2 3')", "notes/more.md": "# More 更多"}
    installed = await system.install(pack_files([PackedFile(name, text.encode()) for name, text in files.items()]))
    assert installed.status_code == 201, installed.text


async def make_key(system: System, role: str, *projects: str) -> str:
    body = {"label": "an agent", "role": role, "projects": list(projects or ("default",))}
    key: str = (await system.http.post("/api/keys", json=body)).json()["key"]
    return key


class OlderSession(ClientSession):
    """A client that speaks an older revision of the protocol."""

    async def send_request(self, request: types.ClientRequest, *given: Any, **options: Any) -> Any:
        if isinstance(request.root, types.InitializeRequest):
            request.root.params.protocolVersion = "2024-11-05"
        return await super().send_request(request, *given, **options)


@asynccontextmanager
async def connected(
    system: System, key: str, query: str = "", kind: type[ClientSession] = ClientSession
) -> AsyncGenerator[ClientSession]:
    """A session with the endpoint."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
        streamable_http_client(f"{get_url(system)}{query}", http_client=http) as (read, write, _),
        kind(read, write) as session,
    ):
        await session.initialize()
        yield session


def get_url(system: System) -> str:
    return f"{str(system.http.base_url).rstrip('/')}/mcp"


def structure(result: types.CallToolResult) -> Any:
    assert not result.isError, result.content
    return result.structuredContent


def said(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


async def test_an_agent_learns_which_command_of_which_device_a_sentence_means(system: System) -> None:
    lamp = {"id": "lamp-1", "name": "台灯", "room": "书房", "type": "light", "capabilities": ["switch"]}
    on = {"id": "switch.on", "capability": {"id": "switch"}, "command": {"id": "on"}, "description": "打开设备"}
    assert (await system.http.put("/api/devices?home=villa", json=[lamp])).json()["counts"]["created"] == 1
    assert (await system.http.put("/api/commands", json=[on])).json()["counts"]["created"] == 1
    async with connected(system, await make_key(system, "reader")) as session:
        (named,) = structure(await session.call_tool("resolve_command", {"text": "打开书房的灯"}))["results"]
        (meant,) = structure(await session.call_tool("resolve_command", {"text": "打开它"}))["results"]
    device = {"id": "lamp-1", "name": "台灯", "room": "书房", "command": "switch.on", "arguments": {}}
    assert (named["status"], named["devices"]) == ("resolved", [device])
    assert (meant["status"], meant["devices"]) == ("resolved", [device])


@pytest.mark.usefixtures("painter")
async def test_an_agent_finds_a_tool_calls_it_and_gets_its_files(system: System) -> None:
    async with connected(system, await make_key(system, "runner")) as session:
        assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
        found = structure(await session.call_tool("search_tools", {"query": "paint a picture", "limit": 1}))["tools"]
        assert [(tool["id"], tool.get("action")) for tool in found] == [
            ("skill:painter", None),
            ("skill:painter", "count"),
        ]
        counted = await session.call_tool("call_tool", {"id": "skill:painter", "action": "count"})
        assert said(counted) == "1 2 3\n"
        summed = await session.call_tool("call_tool", {"id": "builtin:calculate", "arguments": {"expression": "6 * 7"}})
        assert structure(summed)["result"] == "42"
        program = """(await call_tool("builtin:calculate", expression="6 * 7"))["structured"]"""
        ran = await session.call_tool("call_tool", {"id": "builtin:run_code", "arguments": {"code": program}})
        assert structure(ran)["result"] == "42"

        painted = await session.call_tool("run_skill", {"name": "painter"})
        (picture,) = (part for part in painted.content if isinstance(part, types.ImageContent))
        (link,) = (part for part in painted.content if isinstance(part, types.ResourceLink))
        assert (picture.data, picture.mimeType, link.name) == ("UE5H", "image/png", "a b.bin")
        (file,) = (await session.read_resource(link.uri)).contents
        assert isinstance(file, types.BlobResourceContents)
        assert file.blob == "/wA="
    async with connected(system, await make_key(system, "runner"), kind=OlderSession) as session:
        painted = await session.call_tool("run_skill", {"name": "painter"})
        (uri,) = re.findall(r"^file (skillbus://runs/\S+)$", said(painted), re.MULTILINE)
        (file,) = (await session.read_resource(AnyUrl(uri))).contents
        assert {part.type for part in painted.content} == {"text", "image"}
        assert isinstance(file, types.BlobResourceContents)


@pytest.mark.usefixtures("painter")
async def test_files_of_skills_are_resources(system: System) -> None:
    async with connected(system, await make_key(system, "reader")) as session:
        listed = (await session.list_resources()).resources
        assert "skillbus://skills/painter/SKILL.md" in {str(resource.uri) for resource in listed}
        assert (await session.list_resource_templates()).resourceTemplates
        (more,) = (await session.read_resource(AnyUrl("skillbus://skills/painter/notes/more.md"))).contents
        assert isinstance(more, types.TextResourceContents)
        assert (more.text, more.mimeType) == ("# More 更多", "text/markdown")
        for uri in ("skillbus://skills/painter/none", "skillbus://skills/painter/../x", "file:///etc/passwd"):
            with pytest.raises(McpError):
                await session.read_resource(AnyUrl(uri))


async def test_knowledge_is_suggested_as_pending_and_found_once_it_is_approved(system: System) -> None:
    async with connected(system, await make_key(system, "runner")) as session:
        item = {"title": "Deploy window", "content": "We deploy on Tuesdays before noon.", "reason": "asked twice"}
        made = structure(await session.call_tool("suggest_knowledge", item))
        assert made["status"] == "pending"
        forged = await session.call_tool("suggest_knowledge", {**item, "status": "active"})
        assert (forged.isError, "invalid_arguments" in said(forged)) == (True, True)

        async def find() -> list[Json]:
            query = {"query": "When do we deploy?"}
            items: list[Json] = structure(await session.call_tool("search_knowledge", query))["items"]
            return items

        assert await find() == []
        await system.http.post("/api/knowledge/review", json={"ids": [made["id"]], "action": "approve"})
        found = await eventually(find, bool)
        assert [one["title"] for one in found] == ["Deploy window"]
        built = await session.call_tool("build_context", {"query": "When do we deploy?", "budget_tokens": 500})
        assert "Tuesdays" in said(built)


@pytest.mark.usefixtures("painter")
async def test_a_key_does_over_mcp_what_it_may_do_over_http(system: System) -> None:
    async with connected(system, await make_key(system, "reader")) as reader:
        refused = await reader.call_tool("run_skill", {"name": "painter"})
        assert (refused.isError, said(refused).partition(":")[0]) == (True, "forbidden")
    async with connected(system, await make_key(system, "runner", "elsewhere")) as other:
        assert structure(await other.call_tool("search_tools", {"query": "paint a picture"}))["tools"] == []
        missing = await other.call_tool("run_skill", {"name": "painter"})
        assert said(missing).partition(":")[0] == "skill_not_found"
    async with connected(
        system, await make_key(system, "runner", "default", "elsewhere"), "?project=default&stream=true"
    ) as both:
        assert not (await both.call_tool("run_skill", {"name": "painter"})).isError
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    for headers in ({}, {"Authorization": "Bearer nothing"}):
        async with httpx.AsyncClient(base_url=system.http.base_url, headers=headers, trust_env=False) as stranger:
            answer = await stranger.post("/mcp", json=initialize)
            assert (answer.status_code, answer.headers["WWW-Authenticate"][:6]) == (401, "Bearer")


@pytest.mark.usefixtures("painter")
async def test_a_session_is_of_no_use_to_another_key(system: System) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    opened = await system.http.post(
        "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}, headers=headers
    )
    session = opened.headers["mcp-session-id"]
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    own = await system.http.post("/mcp", json=listing, headers={**headers, "mcp-session-id": session})
    key = await make_key(system, "admin", "*")
    theirs = {**headers, "mcp-session-id": session, "Authorization": f"Bearer {key}"}
    other = await system.http.post("/mcp", json=listing, headers=theirs)
    assert (own.status_code, other.status_code) == (200, 404)
    assert (await system.http.get("/mcp")).status_code == 405
    assert 'route="/mcp"' in (await system.http.get("/metrics")).text


@pytest.mark.usefixtures("painter")
async def test_progress_of_a_run_is_reported_and_a_cancelled_call_ends_it(system: System) -> None:
    heard, begun = list[str | None](), asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)
        if message == "painting\n":
            begun.set()

    async with connected(system, await make_key(system, "runner")) as session:
        whole = await session.call_tool("run_skill", {"name": "painter"}, progress_callback=on_progress)
        assert "".join(str(message) for message in heard[1:]) == said(whole) == "painting\ndone\n"
        begun.clear()
        arguments = {"name": "painter", "arguments": {"linger": True}}
        calling = asyncio.create_task(session.call_tool("run_skill", arguments, progress_callback=on_progress))
        async with asyncio.timeout(20):
            await begun.wait()
        (running,) = (await system.http.get("/api/runs?state=running")).json()["runs"]
        number = session._request_id - 1  # the SDK tells nobody the id of a request
        cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=number))
        await session.send_notification(types.ClientNotification(cancelled))
        with pytest.raises(McpError):
            await calling

        async def state() -> str:
            text: str = (await system.http.get(f"/api/runs/{running['run_id']}")).json()["state"]
            return text

        assert await eventually(state, lambda state: state != "running") == "cancelled"


@pytest.mark.usefixtures("painter")
async def test_a_call_ends_when_its_client_closes_the_connection(system: System) -> None:
    greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    call = {"name": "run_skill", "arguments": {"name": "painter", "arguments": {"linger": True}}}
    headers = {"Accept": "application/json, text/event-stream"}

    async def find_runs(state: str) -> set[str]:
        runs = (await system.http.get(f"/api/runs?state={state}")).json()["runs"]
        return {run["run_id"] for run in runs}

    async def send(method: str, params: object) -> AsyncExitStack:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        stack = AsyncExitStack()
        opened = await stack.enter_async_context(system.http.stream("POST", "/mcp", json=message, headers=headers))
        headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        return stack

    async with await send("initialize", greeting):
        pass
    async with await send("tools/call", call):
        running = await eventually(lambda: find_runs("running"), bool)
    assert await eventually(lambda: find_runs("cancelled"), lambda ended: running <= ended)
    assert (await system.http.delete("/mcp", headers=headers)).status_code == 200


@pytest.mark.usefixtures("painter")
async def test_a_skillbus_is_an_mcp_server_of_another_one(system: System) -> None:
    """The other one is the same one here: it registers itself under a name of its own."""
    caller, file = system.standalone.bus.caller, system.data / "mcp.json"
    key = await make_key(system, "runner")
    server = await add_entry(caller, file, "first", url=get_url(system), headers={"Authorization": f"Bearer {key}"})
    assert (server.state, server.tools, server.protocol) == ("connected", len(TOOLS), types.LATEST_PROTOCOL_VERSION)
    body = {"arguments": {"id": "builtin:calculate", "arguments": {"expression": "6 * 7"}}}
    called = (await system.http.post("/api/tools/mcp:first/call_tool/call", json=body)).json()
    assert (called["is_error"], called["structured"]["result"]) == (False, "42")
    painted = (
        await system.http.post("/api/tools/mcp:first/run_skill/call", json={"arguments": {"name": "painter"}})
    ).json()
    (link,) = (part for part in painted["content"] if part["type"] == "resource_link")
    assert (await system.http.get(link["uri"])).content == b"PNG"
    await remove_server(caller, file, "first")
    assert json.dumps(painted).count("skillbus://") == 0


@pytest.mark.usefixtures("painter")
async def test_the_command_serves_a_desktop_client_over_its_standard_streams(system: System) -> None:
    environment = {**os.environ, "SKILLBUS_DATA": str(system.data)}
    words = ["-m", "skillbus.cli", "mcp", "serve"]
    command = StdioServerParameters(command=sys.executable, args=words, env=environment)
    heard = list[str | None]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        greeting = await session.initialize()
        assert (greeting.serverInfo.name, greeting.protocolVersion) == ("skillbus", types.LATEST_PROTOCOL_VERSION)
        assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
        painted = await session.call_tool("run_skill", {"name": "painter"}, progress_callback=on_progress)
        assert "".join(str(message) for message in heard[1:]) == said(painted) == "painting\ndone\n"


async def test_a_bridge_opens_another_session_when_its_server_has_forgotten_the_first(system: System) -> None:
    lines, replies = asyncio.Queue[bytes](), asyncio.Queue[bytes]()

    async def read_lines() -> AsyncIterator[bytes]:
        while line := await lines.get():
            yield line

    async def ask(method: str, number: int | None = None, **params: object) -> Json:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        lines.put_nowait(json.dumps(message).encode())
        if number is None:
            return {}
        async with asyncio.timeout(10):
            reply: Json = json.loads(await replies.get())
        assert reply["id"] == number
        return reply

    bridge = McpBridge(system.http, None, replies.put)
    running = asyncio.create_task(bridge.run(read_lines()))
    client = {"name": "a", "version": "1"}
    await ask("initialize", 1, protocolVersion="2025-03-26", capabilities={}, clientInfo=client)
    await ask("notifications/initialized")
    await ask("tools/list", 2)
    (session,) = (value for name, value in bridge._session.items() if name == "mcp-session-id")
    assert (await system.http.delete("/mcp", headers={"mcp-session-id": session})).status_code == 200
    assert "result" in await ask("tools/list", 3)
    lines.put_nowait(b"no JSON")
    assert json.loads(await replies.get())["error"]["code"] == -32700
    lines.put_nowait(b"")
    await running
    assert replies.empty()


async def test_a_call_that_needs_it_is_put_to_the_user_of_a_client_that_can_ask_and_refused_elsewhere(
    system: System,
) -> None:
    path = "/api/tools/builtin:calculate/approval"
    assert (await system.http.post(path, json={"required": True})).status_code == 200
    given = {"id": "builtin:calculate", "arguments": {"expression": "6 * 7"}}
    answers = iter(["accept", "decline"])
    asked = list[str]()

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult.model_validate({"action": next(answers)})

    class AskingSession(ClientSession):
        def __init__(self, read: Any, write: Any) -> None:
            super().__init__(read, write, elicitation_callback=answer)

    key = await make_key(system, "runner")
    async with connected(system, key, kind=AskingSession) as session:
        approved, declined = [await session.call_tool("call_tool", given) for _ in range(2)]
    async with connected(system, key) as silent:
        refused = await silent.call_tool("call_tool", given)
    assert (await system.http.post(path, json={"required": False})).status_code == 200
    assert (approved.isError, (approved.structuredContent or {})["result"]) == (False, "42")
    assert [one.isError for one in (declined, refused)] == [True, True]
    assert "forbidden: the user did not approve" in str(declined.content)
    assert "approval_required: " in str(refused.content)
    assert len(asked) == 2
    assert all(json.loads(one.partition(": call_tool ")[2]) == given for one in asked)
