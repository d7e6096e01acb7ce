"""Calls of tools over HTTP: files in, links to files out, events, and calls that nobody waits for."""

import asyncio
import base64

import pytest
from pydantic import JsonValue

from skillbus.contracts.agent.tool_calls import (
    CALL_TOOL,
    CallCancelled,
    CallSelector,
    CallTool,
    ToolCalled,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import Message
from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.gateway.domain.runs.tool_calls import CallBody

from .fakes import KEY, World
from .test_followed_runs import RUN, events_of, tell
from .test_runs import inline

LINKS = (
    f"skillbus://runs/{RUN}/sub/a%20b.png",
    f"skillbus://calls/{RUN}/image-1.png",
    "https://example.com/a",
    "skillbus://elsewhere/a",
)


def called(**more: object) -> ToolCalled:
    return ToolCalled.model_validate({"id": "skill:plot", "run_id": RUN, "duration_ms": 1.5, **more})


def request_of(world: World) -> CallTool:
    request = world.caller.asked[-1][1]
    assert isinstance(request, CallTool)
    return request


async def test_a_skill_is_called_with_its_action_its_files_and_its_time() -> None:
    world = World()
    world.caller.on(CALL_TOOL, lambda _: called(structured={"n": 1}))
    body = {
        "arguments": {"size": 3},
        "action": "draw",
        "files": {"in.txt": base64.b64encode(b"hi").decode()},
        "timeout_s": 100,
        "run_id": RUN,
    }
    async with world.client() as client:
        answer = await client.post("/api/tools/skill:plot/call?project=p", json=body)
    assert (answer.status_code, answer.json()) == (200, called(structured={"n": 1}).model_dump(mode="json"))
    assert request_of(world) == CallTool(
        project="p",
        id="skill:plot",
        arguments={"size": 3},
        action="draw",
        files={"in.txt": inline(b"hi")},
        timeout_s=100,
        run_id=RUN,
    )
    assert (world.caller.waits_s[-1] or 0) > 100


async def test_links_to_files_of_skillbus_are_paths_from_which_they_are_fetched() -> None:
    world = World()
    content = [{"type": "resource_link", "uri": uri, "name": "a"} for uri in LINKS]
    world.caller.on(CALL_TOOL, lambda _: called(content=content))
    world.run_files.held[f"{RUN}/out/sub/a b.png"] = b"artifact"
    world.run_files.held[f"calls/p/{RUN}/image-1.png"] = b"image"
    async with world.client() as client:
        parts = (await client.post("/api/tools/skill:plot/call?project=p", json={})).json()["content"]
        files = [await client.get(part["uri"]) for part in parts[:2]]
        of_another_project = await client.get(parts[1]["uri"].replace("=p", "=other"))
    assert [file.content for file in files] == [b"artifact", b"image"]
    assert [part["uri"] for part in parts[2:]] == list(LINKS[2:])
    assert files[1].headers["Content-Disposition"] == "attachment; filename*=UTF-8''image-1.png"
    assert of_another_project.status_code == 404


async def test_files_of_a_call_belong_to_its_project() -> None:
    world = World(key=KEY)
    world.run_files.held[f"calls/mine/{RUN}/a"] = b"x"
    paths = [f"/api/calls/{RUN}/files/a{query}" for query in ("", "?project=mine", "?project=other")]
    async with world.client(world.add_key(Role.READER, "mine")) as client:
        assert [(await client.get(path)).status_code for path in paths] == [200, 200, 403]
    async with world.client(world.add_key(Role.READER, "other")) as client:
        assert [(await client.get(path)).status_code for path in paths] == [404, 403, 404]


@pytest.mark.parametrize("tool_id", ["skill:plot", "builtin:run_code"])
async def test_a_followed_call_of_what_prints_gives_its_output_and_then_its_result(tool_id: str) -> None:
    world = World()
    content = [{"type": "resource_link", "uri": LINKS[0], "name": "a"}]
    world.caller.on(CALL_TOOL, lambda _: called(content=content))
    tell(world, (OutputStream.STDOUT, b"do"), (OutputStream.STDOUT, b"ne"))
    async with world.client() as client:
        followed = await client.post(f"/api/tools/{tool_id}/call?stream=true", json={"run_id": RUN})
        assert request_of(world).stream
        plain = await client.post(f"/api/tools/{tool_id}/call", json={"run_id": RUN})
    events = events_of(followed)
    assert [name for name, _ in events] == ["begun", "output", "output", "reply"]
    assert events[-1][1] == plain.json()
    assert world.feed.listening == 0


async def test_a_followed_call_of_another_tool_is_its_result() -> None:
    world = World()
    world.caller.on(CALL_TOOL, lambda _: called())
    async with world.client() as client:
        events = events_of(await client.post("/api/tools/builtin:x/call?stream=1", json={}))
    assert [name for name, _ in events] == ["reply"]
    assert world.feed.listened_to == []


async def test_a_followed_call_that_is_refused_is_a_problem_and_no_stream() -> None:
    world = World()
    details: dict[str, JsonValue] = {"provided_by": "Acme"}
    world.caller.on(CALL_TOOL, lambda _: RequestError(ErrorCode.NOT_CALLABLE, "Ask Acme.", details=details))
    for tool_id in ("acme.invoice", "skill:plot"):
        async with world.client() as client:
            answer = await client.post(f"/api/tools/{tool_id}/call?stream=1", json={})
        assert (answer.status_code, answer.json()["code"], answer.json()["details"]) == (409, "not_callable", details)


async def test_a_call_that_nobody_waits_for_is_cancelled_until_an_agent_knows_it() -> None:
    world, begun, cancels = World(), asyncio.Event(), list[Message]()

    class Lingering(type(world.caller)):  # type: ignore[misc]  # the fake that answers at once
        async def call(self, endpoint: object, request: Message, **options: object) -> Message:
            if endpoint is CALL_TOOL:
                begun.set()
                await asyncio.Event().wait()
            cancels.append(request)
            return CallCancelled(run_id=RUN, ending=len(cancels) == 2)

    world.caller = Lingering()
    async with world.client() as client:
        asking = asyncio.create_task(client.post("/api/tools/mcp:a/b/call", json={"run_id": RUN}))
        await begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
    assert cancels == [CallSelector(run_id=RUN)] * 2


@pytest.mark.parametrize("body", [{"timeout_s": 0}, {"run_id": "mine"}, {"files": {"a": "??"}}, {"arguments": []}])
async def test_a_call_against_the_contract_is_refused(body: dict[str, object]) -> None:
    async with World().client() as client:
        answer = await client.post("/api/tools/skill:plot/call", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_call_may_have_no_arguments() -> None:
    assert CallBody() == CallBody(arguments={}, files={})
