"""Which tools may be called, with what, and the form of their answers."""

import asyncio
import base64
from collections.abc import AsyncGenerator

import pytest
from pydantic import JsonValue

from skillbus.agent.domain.approvals import refuse_call
from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTools, make_tool
from skillbus.agent.domain.errors import (
    ApprovalMissingError,
    ArgumentsInvalidError,
    CallDeniedError,
    CallTimedOutError,
    ServerFailedError,
    ServerUnknownError,
    ToolExternalError,
    ToolNotCallableError,
    ToolUnknownError,
)
from skillbus.agent.domain.servers.follower import FollowTiming
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.agent.domain.tool_answer import ToolAnswer, make_text_part
from skillbus.agent.domain.tool_caller import ToolCaller
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import ToolDescription, ToolState
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.skill_runs import Artifact, RunSkill, SkillRan

from .fakes import QUICK, RAW, WAIT_S, World, holds

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": "(a+)+$"}},
    "required": ["path"],
}


RUN = "0123456789abcdef" * 2


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
        yield make_caller(world, servers)


def make_caller(world: World, servers: ServerRegistry) -> ToolCaller:
    return ToolCaller(world.catalogue, servers, BUILTINS, world.sandbox, world.files, world.lines)


async def call(
    caller: ToolCaller,
    tool_id: str,
    arguments: dict[str, JsonValue],
    *,
    project: str = "default",
    within_s: float = WAIT_S,
    **more: object,
) -> ToolAnswer:
    request = CallTool.model_validate({"project": project, "id": tool_id, "arguments": arguments, **more})
    return await caller.call(request, request.run_id or RUN, within_s)


async def test_a_tool_is_called_by_its_own_name(world: World, caller: ToolCaller) -> None:
    assert (await call(caller, "mcp:raw/read", {"path": "aa"})).parts == (make_text_part("read"),)
    assert world.server.calls == [("read", {"path": "aa"})]


async def test_the_argument_schema_of_a_stranger_costs_no_more_than_it_should(world: World, caller: ToolCaller) -> None:
    with pytest.raises(ArgumentsInvalidError) as caught:
        await call(caller, "mcp:raw/read", {"path": "a" * 60_000 + "b"})
    assert (caught.value.path, world.server.calls) == ("$.path", [])


@pytest.mark.parametrize("state", [ToolState.QUARANTINED, ToolState.DISABLED])
async def test_a_tool_that_is_not_active_is_not_called(world: World, caller: ToolCaller, state: ToolState) -> None:
    key = ("default", "mcp:raw/read")
    world.catalogue.kept[key] = world.catalogue.kept[key][0], state
    with pytest.raises(ToolNotCallableError):
        await call(caller, "mcp:raw/read", {"path": "a"})
    assert world.server.calls == []


async def test_an_agent_calls_a_marked_tool_only_as_a_person_approved_it(world: World, caller: ToolCaller) -> None:
    key = ("default", "mcp:raw/read")
    request = CallTool(id="mcp:raw/read", arguments={"path": "a"})
    asked = list[str]()

    async def approve(wanted: CallTool, reason: str) -> CallTool:
        asked.append(reason)
        return wanted.model_copy(update={"arguments": {"path": "aa"}})

    async def approve_wrongly(wanted: CallTool, _: str) -> CallTool:
        return wanted.model_copy(update={"arguments": {"path": 1}})

    async def disable_meanwhile(wanted: CallTool, _: str) -> CallTool:
        world.catalogue.kept[key] = world.catalogue.kept[key][0], ToolState.DISABLED
        return wanted

    await caller.call(request, RUN, WAIT_S, approve)
    assert asked == []
    world.catalogue.marked.add(key)
    await caller.call(request, RUN, WAIT_S)  # a person's own call
    await caller.call(request, RUN, WAIT_S, approve)
    assert asked == ["an operator requires it"]
    with pytest.raises(ApprovalMissingError, match="call it directly"):
        await caller.call(request, RUN, WAIT_S, refuse_call)
    with pytest.raises(ArgumentsInvalidError):
        await caller.call(request, RUN, WAIT_S, approve_wrongly)
    with pytest.raises(ToolNotCallableError):
        await caller.call(request, RUN, WAIT_S, disable_meanwhile)
    assert [given for _, given in world.server.calls] == [{"path": "a"}, {"path": "a"}, {"path": "aa"}]


async def test_a_cancelled_call_waits_for_no_approval(world: World, caller: ToolCaller) -> None:
    tool_id, cancelled, asked = "builtin:wait", asyncio.Event(), asyncio.Event()
    await world.catalogue.put_tools("default", "builtin", [ToolDescription(id=tool_id, name="x", source="builtin")])
    world.catalogue.marked.add(("default", tool_id))

    async def never(_: CallTool, _reason: str) -> CallTool:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    request = CallTool(id=tool_id, arguments={"seconds": 0})
    calling = asyncio.create_task(caller.call_until(request, RUN, WAIT_S, cancelled, never))
    await asked.wait()
    cancelled.set()
    with pytest.raises(CallDeniedError, match="cancelled before"):
        await calling


async def test_a_marked_skill_or_builtin_tool_is_not_started_for_an_agent(world: World, caller: ToolCaller) -> None:
    for tool_id, source in (("skill:wipe", "skills"), ("builtin:wait", "builtin")):
        tool = ToolDescription(id=tool_id, name="x", source=source)
        await world.catalogue.put_tools("default", source, [tool])
        world.catalogue.marked.add(("default", tool_id))
        with pytest.raises(ApprovalMissingError):
            await caller.call(CallTool(id=tool_id, arguments={"seconds": 0}), RUN, WAIT_S, refuse_call)
    assert world.sandbox.requests == []


async def test_an_external_tool_is_not_callable_and_names_its_provider(world: World, caller: ToolCaller) -> None:
    external = ToolDescription(id="lab.invoice", name="invoice", source="lab", provider="Acme")
    await world.catalogue.put_tools("default", "lab", [external])
    with pytest.raises(ToolExternalError) as refused:
        await call(caller, "lab.invoice", {})
    assert refused.value.provided_by == "Acme"


async def test_a_tool_of_another_project_is_not_there(caller: ToolCaller) -> None:
    with pytest.raises(ToolUnknownError):
        await call(caller, "mcp:raw/read", {"path": "a"}, project="other")


async def test_a_catalogued_tool_whose_server_is_gone_cannot_be_called(world: World, caller: ToolCaller) -> None:
    world.store.kept.clear()
    with pytest.raises(ServerUnknownError):
        await call(caller, "mcp:raw/read", {"path": "a"})


async def test_a_server_that_is_away_is_tried_at_once_and_told(world: World) -> None:
    slow = ServerRegistry(world.ports(), FollowTiming(first_retry_s=3600, last_retry_s=3600))
    async with slow.follow_all(world.changes):
        await slow.register(RAW, WAIT_S)
        world.server.fails = "no route"
        world.server.on_change()
        caller = make_caller(world, slow)
        with pytest.raises(ServerFailedError, match="no route"):
            await call(caller, "mcp:raw/read", {"path": "a"})
        world.server.fails = None
        assert (await call(caller, "mcp:raw/read", {"path": "a"})).parts == (make_text_part("read"),)


async def test_a_builtin_is_called_for_its_project_within_its_time(caller: ToolCaller) -> None:
    assert (await call(caller, "builtin:wait", {"seconds": 0}, project="other")).text == "other wait"
    with pytest.raises(CallTimedOutError):
        await call(caller, "builtin:wait", {"seconds": 60}, project="other", within_s=0.05)
    with pytest.raises(ArgumentsInvalidError):
        await call(caller, "builtin:wait", {"seconds": "long"}, project="other")
    with pytest.raises(ToolUnknownError):
        await call(caller, "builtin:nothing", {}, project="other")


def ran(stdout: bytes = b"", stderr: bytes = b"", **more: object) -> SkillRan:
    usual: dict[str, object] = {"run_id": RUN, "status": "ok", "exit_code": 0, "duration_ms": 1, "truncated": False}
    contents = {"stdout": inline(stdout), "stderr": inline(stderr), "isolation": "full"}
    return SkillRan.model_validate({**usual, **contents, **more})


def inline(data: bytes) -> Content:
    return Content(size_bytes=len(data), sha256="0" * 64, inline=data)


async def test_a_skill_is_called_by_its_action_with_its_files_and_its_results_are_parts(
    world: World, caller: ToolCaller
) -> None:
    file = Content(size_bytes=3, sha256="0" * 64, object_name=f"{RUN}/out/a b.png")
    world.sandbox.ran = ran(b'{"n": 1}', b"hm", result={"n": 1}, artifacts=[Artifact(name="a b.png", content=file)])
    given = inline(b"x").model_dump(mode="json")
    files = {"in.txt": given}
    answer = await call(
        caller, "skill:plot", {"size": 3}, project="p", action="draw", files=files, timeout_s=9, stream=True
    )
    link: JsonValue = {
        "type": "resource_link",
        "uri": f"skillbus://runs/{RUN}/a%20b.png",
        "name": "a b.png",
        "mimeType": "image/png",
        "size": 3,
    }
    assert answer == ToolAnswer(content=(make_text_part('{"n": 1}'), link), structured={"n": 1})
    assert world.sandbox.requests == [
        RunSkill(
            project="p",
            name="plot",
            action="draw",
            args={"size": 3},
            files={"in.txt": inline(b"x")},
            timeout_s=9,
            run_id=RUN,
            run_id_is_new=True,
            stream=True,
        )
    ]


async def test_a_skill_that_fails_answers_with_its_output_and_the_reason(world: World, caller: ToolCaller) -> None:
    world.sandbox.ran = ran(b"half", b"Traceback", status="failed", exit_code=3, detail="noted")
    answer = await call(caller, "skill:plot", {})
    assert (answer.is_error, [part["text"] for part in answer.parts if isinstance(part, dict)]) == (
        True,
        ["half", "failed with exit code 3: noted\nTraceback"],
    )


async def test_a_skill_that_is_not_there_and_one_that_cannot_be(world: World, caller: ToolCaller) -> None:
    with pytest.raises(RequestError) as refused:
        await call(caller, "skill:nobody", {})
    assert refused.value.code is ErrorCode.SKILL_NOT_FOUND
    with pytest.raises(ToolUnknownError):
        await call(caller, "skill:No Name", {})
    assert len(world.sandbox.requests) == 1


async def test_only_a_skill_takes_an_action_and_files(world: World, caller: ToolCaller) -> None:
    for tool_id in ("mcp:raw/read", "builtin:wait"):
        with pytest.raises(ArgumentsInvalidError):
            await call(caller, tool_id, {}, action="run")
        with pytest.raises(ArgumentsInvalidError):
            await call(caller, tool_id, {}, files={"a": inline(b"x").model_dump(mode="json")})
    assert world.server.calls == []


@pytest.mark.parametrize("tool_id", ["mcp:raw/read", "builtin:wait", "skill:plot"])
async def test_a_call_of_any_type_is_cancelled_by_its_id_and_project(
    world: World, caller: ToolCaller, tool_id: str
) -> None:
    world.sandbox.ran, world.sandbox.lingers, world.server.silent = ran(), asyncio.Event(), asyncio.Event()
    arguments: dict[str, JsonValue] = {"seconds": 60} if tool_id == "builtin:wait" else {"path": "a"}
    calling = asyncio.create_task(call(caller, tool_id, arguments, run_id=RUN))
    if tool_id == "builtin:wait":
        await holds(lambda: world.lines.open)
    else:
        await (world.server.silent if tool_id.startswith("mcp") else world.sandbox.lingers).wait()
    assert not await world.lines.cancel(RUN, "other")
    assert await world.lines.cancel(RUN, "default")
    answer = await calling
    assert (answer.is_error, "cancelled" in str(answer.parts), world.lines.open) == (True, True, {})


async def test_images_sounds_and_files_of_a_server_become_links_to_stored_files(
    world: World, caller: ToolCaller
) -> None:
    def encode(data: bytes) -> str:
        return base64.b64encode(data).decode()

    blob: JsonValue = {"uri": "file:///tmp/../my%20report.pdf", "mimeType": "application/pdf", "blob": encode(b"PDF")}
    parts: tuple[JsonValue, ...] = (
        {"type": "text", "text": "two files"},
        {"type": "image", "data": encode(b"x" * 2_000_000), "mimeType": "image/png"},
        {"type": "audio", "data": encode(b"la"), "mimeType": "text/html\r\nX: y"},
        {"type": "resource", "resource": blob},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "plain"}},
        {"type": "resource_link", "uri": "https://example.com/a", "name": "a"},
    )
    world.server.answers["read"] = ToolAnswer(content=parts, structured={"n": 1})
    answer = await call(caller, "mcp:raw/read", {"path": "a"})
    links = [part for part in answer.content if isinstance(part, dict) and str(part.get("uri")).startswith("skillbus")]
    assert [(link["uri"], link["mimeType"], link["size"]) for link in links] == [
        (f"skillbus://calls/{RUN}/image-1.png", "image/png", 2_000_000),
        (f"skillbus://calls/{RUN}/audio-2.bin", "application/octet-stream", 2),
        (f"skillbus://calls/{RUN}/3-my_report.pdf", "application/pdf", 3),
    ]
    assert {name: len(data) for (_, _, name), data in world.files.kept.items()} == {
        "image-1.png": 2_000_000,
        "audio-2.bin": 2,
        "3-my_report.pdf": 3,
    }
    assert (answer.content[0], answer.content[4:], answer.truncated) == (parts[0], parts[4:], False)


async def test_damaged_files_links_to_files_of_others_and_files_that_cannot_be_kept_are_left_out(
    world: World, caller: ToolCaller
) -> None:
    text: JsonValue = {"type": "text", "text": "done"}
    bad: tuple[JsonValue, ...] = (
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        {"type": "resource_link", "uri": f" SkillBus://calls/{RUN}/x", "name": "x"},
    )
    for part in bad:
        world.server.answers["read"] = ToolAnswer(content=(text, part))
        answer = await call(caller, "mcp:raw/read", {"path": "a"})
        assert (answer.content, answer.truncated) == ((text,), True)
    world.files.away = True
    world.server.answers["read"] = ToolAnswer(
        content=(text, {"type": "image", "data": "eA==", "mimeType": "image/png"})
    )
    answer = await call(caller, "mcp:raw/read", {"path": "a"})
    assert (answer.content, answer.truncated) == ((text,), True)


def test_a_registration_has_an_address_and_no_command() -> None:
    for given, said in (({}, "url"), ({"url": "http://a/mcp", "command": "a"}, "skillbus mcp add NAME -- COMMAND")):
        with pytest.raises(ValueError, match=said):
            RegisterMcpServer.model_validate({"name": "raw", **given})
