"""Servers that are started: well-behaved ones, and those of the issue's bad input."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.mcp_file import add_entry

from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import McpServer, McpServerState
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CANCEL_CALL, CallSelector, CallTool
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import ToolState

from .conftest import Agent

RUN = "0123456789abcdef" * 2


def codes(server: McpServer) -> list[str]:
    return [finding.code for finding in server.findings]


async def test_a_server_is_listed_when_it_is_registered_and_its_tools_are_called(agent: Agent) -> None:
    server = await agent.start("friendly", timeout_s=10)
    assert (server.state, server.tools, server.problem) == (McpServerState.CONNECTED, 2, None)
    assert server.server_name == "friendly"
    assert agent.catalogue.names("mcp:friendly") == ["add", "fail"]

    added = await agent.call("mcp:friendly/add", a=2, b=3)
    assert (added.text, added.is_error, added.structured) == ("5", False, {"result": 5})
    failed = await agent.call("mcp:friendly/fail", reason="because")
    assert failed.is_error
    assert "because" in failed.text


async def test_arguments_are_checked_before_the_server_is_asked(agent: Agent) -> None:
    await agent.start("friendly", timeout_s=10)
    with pytest.raises(RequestError) as caught:
        await agent.call("mcp:friendly/add", a="two", b=3)
    assert (caught.value.code, caught.value.details) == (ErrorCode.INVALID_ARGUMENTS, {"path": "$.a"})


async def test_a_server_that_is_removed_is_gone_with_its_tools(agent: Agent) -> None:
    await agent.start("hostile", "pages")
    assert agent.catalogue.names("mcp:pages") == ["page_0", "page_1", "page_2", "read_file"]
    await agent.remove("pages")
    assert agent.catalogue.names("mcp:pages") == []
    with pytest.raises(RequestError) as caught:
        await agent.server("pages")
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_a_server_that_hangs_at_its_start_is_failed_at_its_time(agent: Agent) -> None:
    server = await agent.start("hostile", "hangs", timeout_s=0.5, start_timeout_s=0.5)
    assert server.state is McpServerState.FAILED
    assert "did not begin a session within 0.5 s" in (server.problem or "")


async def test_the_first_start_of_a_command_may_take_longer_than_a_reply(agent: Agent, tmp_path: Path) -> None:
    downloaded = tmp_path / "downloaded"
    adding = asyncio.create_task(agent.start("hostile", "downloads", str(downloaded), timeout_s=0.5))
    slow = await eventually(lambda: find_server(agent, "downloads"), lambda server: server and server.problem)
    assert slow is not None
    assert (slow.state, "its first start is under way" in (slow.problem or "")) == (McpServerState.CONNECTING, True)
    downloaded.write_text("")
    server = await adding
    assert (server.state, server.problem) == (McpServerState.CONNECTED, None)


async def find_server(agent: Agent, name: str) -> McpServer | None:
    try:
        return await agent.server(name)
    except RequestError:  # not read yet
        return None


async def test_a_server_that_hangs_at_its_list_is_failed_at_its_time(agent: Agent) -> None:
    server = await agent.start("hostile", "hangs_at_list", timeout_s=1)
    assert server.state is McpServerState.FAILED
    assert "did not list its tools within 1 s" in (server.problem or "")


async def test_a_call_that_is_not_answered_ends_at_its_time_and_the_server_stays(agent: Agent) -> None:
    await agent.start("hostile", "hangs_at_call", timeout_s=1)
    with pytest.raises(RequestError) as caught:
        await agent.call("mcp:hangs-at-call/read_file")
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.DEADLINE_EXCEEDED, False)


@pytest.mark.parametrize("how", ["by its id", "by its time"])
async def test_a_call_that_is_cancelled_is_cancelled_at_the_server_too(agent: Agent, tmp_path: Path, how: str) -> None:
    async def told(name: str) -> bool:
        return (tmp_path / name).exists()

    await agent.start("lingering", timeout_s=10)
    arguments: dict[str, JsonValue] = {"folder": str(tmp_path)}
    timeout_s = 0.5 if how == "by its time" else None
    call = CallTool(id="mcp:lingering/linger", arguments=arguments, run_id=RUN, timeout_s=timeout_s)
    calling = asyncio.create_task(agent.bus.caller.call(CALL_TOOL, call))
    await eventually(lambda: told("begun"), bool)
    if timeout_s is None:
        others = await agent.bus.caller.call(CANCEL_CALL, CallSelector(run_id=RUN, project="other"))
        ours = await agent.bus.caller.call(CANCEL_CALL, CallSelector(run_id=RUN))
        assert (others.ending, ours.ending) == (False, True)
        assert (await calling).is_error
    else:
        with pytest.raises(RequestError) as caught:
            await calling
        assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
    assert await eventually(lambda: told("cancelled"), bool)
    assert not (await agent.bus.caller.call(CANCEL_CALL, CallSelector(run_id=RUN))).ending


async def test_tools_with_schemas_that_are_none_are_refused_and_the_others_taken(agent: Agent) -> None:
    server = await agent.start("hostile", "lies")
    assert server.state is McpServerState.CONNECTED
    assert agent.catalogue.names("mcp:lies") == ["deep", "good"]
    assert {finding.where: finding.code for finding in server.findings} == {
        "text": "schema_invalid",
        "array": "schema_invalid",
        "nonsense": "schema_invalid",
        "huge": "schema_invalid",
        "abyss": "schema_invalid",
        "bare": "schema_invalid",
        "": "tool_malformed",
    }


async def test_ten_thousand_tools_are_taken(agent: Agent) -> None:
    server = await agent.start("hostile", "many", timeout_s=15)
    assert (server.state, server.tools) == (McpServerState.CONNECTED, 10_000)
    assert len(agent.catalogue.names("mcp:many")) == 10_000


async def test_more_than_twenty_thousand_are_not_taken_at_all(agent: Agent) -> None:
    server = await agent.start("hostile", "too_many", timeout_s=15)
    assert server.state is McpServerState.FAILED
    assert agent.catalogue.names("mcp:too-many") == []


@pytest.mark.parametrize(
    ("how", "problem"), [("circles", "same cursor again"), ("dies_in_mid_list", "its last output: fatal: out of tools")]
)
async def test_a_listing_that_does_not_end_well_changes_nothing(agent: Agent, how: str, problem: str) -> None:
    server = await agent.start("hostile", how)
    assert server.state is McpServerState.FAILED
    assert problem in (server.problem or "")
    assert agent.catalogue.names(f"mcp:{how.replace('_', '-')}") == []


async def test_of_two_tools_with_one_name_the_first_counts(agent: Agent) -> None:
    server = await agent.start("hostile", "duplicates")
    assert agent.catalogue.names("mcp:duplicates") == ["other", "same"]
    assert codes(server) == ["duplicate_tool"]
    assert agent.catalogue.tools["default", "mcp:duplicates/same"].tool.description == "The first."


async def test_names_that_cannot_be_shown_are_refused(agent: Agent) -> None:
    server = await agent.start("hostile", "names")
    assert agent.catalogue.names("mcp:names") == ["a/b", "fine"]
    assert codes(server) == ["name_unusable"] * 5
    assert (await agent.call("mcp:names/a/b")).is_error is False


async def test_a_description_of_five_megabytes_is_cut_and_what_was_cut_is_told(agent: Agent) -> None:
    server = await agent.start("hostile", "novel", timeout_s=15)
    assert codes(server) == ["description_cut", "instructions_to_the_model"]
    novel = agent.catalogue.tools["default", "mcp:novel/novel"].tool
    assert len(novel.description) == 8_192
    told = novel.metadata["findings"]
    assert isinstance(told, list)
    assert [finding["code"] for finding in told if isinstance(finding, dict)] == codes(server)
    assert "findings" not in agent.catalogue.tools["default", "mcp:novel/good"].tool.metadata


async def test_output_without_end_is_not_kept(agent: Agent) -> None:
    server = await agent.start("hostile", "endless", timeout_s=5)
    assert server.state is McpServerState.FAILED
    assert "message of more than 16777216 bytes" in (server.problem or "")


async def test_an_answer_too_large_for_a_message_is_cut(agent: Agent) -> None:
    await agent.start("hostile", "talks")
    answer = await agent.call("mcp:talks/read_file")
    assert answer.truncated
    assert answer.content[1:] == ({"type": "text", "text": "end"},)
    assert 10_000 < len(answer.text) < 2_000_000


async def test_lines_that_are_no_messages_are_passed_over(agent: Agent) -> None:
    assert (await agent.start("hostile", "babbles")).state is McpServerState.CONNECTED


async def test_a_server_that_ends_tells_its_last_words_without_its_secrets(agent: Agent) -> None:
    server = await agent.start("hostile", "dies", env={"KEY": "canary-4711"})
    assert server.state is McpServerState.FAILED
    assert "its last output: cannot begin: the key *** is refused" in (server.problem or "")
    assert server.env_names == ("KEY",)
    assert "canary" not in server.model_dump_json()


async def test_a_command_that_is_not_there_is_told(agent: Agent) -> None:
    server = await add_entry(agent.bus.caller, agent.mcp_file, "nothing", command="no-such-command-here")
    problem = "there is no command no-such-command-here: name one that is on the agent's PATH"
    assert (server.state, server.problem) == (McpServerState.FAILED, problem)


async def test_a_process_gets_what_is_given_and_nothing_of_ours(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLBUS_NATS_TOKEN", "canary")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("canary-from-a-file\n")
    await agent.start("hostile", "echoes", env={"GIVEN": "yes", "KEY": "file:key"})
    told = json.loads((await agent.call("mcp:echoes/read_file", path="x")).text)
    assert told["arguments"] == {"path": "x"}
    assert (told["env"]["GIVEN"], told["env"]["KEY"]) == ("yes", "***")  # what it was given is blacked out
    assert "SKILLBUS_NATS_TOKEN" not in told["env"]
    assert "PATH" in told["env"]


async def test_a_secret_that_slips_into_what_a_server_says_is_told_to_nobody(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_KEY", "canary-4711")
    await agent.start("hostile", "blabs", env={"KEY": "env:THEIR_KEY", "KIND": "test"})
    assert agent.catalogue.tools["default", "mcp:blabs/read_file"].tool.description == "Reads a file with ***."
    called = await agent.call("mcp:blabs/read_file", path="x")
    assert (called.is_error, called.text) == (True, "HTTP 401: the key *** of a test is refused")
    assert "canary" not in called.model_dump_json()


async def test_a_reference_that_leads_nowhere_is_told_by_its_name(agent: Agent) -> None:
    server = await agent.start("hostile", "echoes", env={"KEY": "env:NO_SUCH_VARIABLE"})
    assert server.state is McpServerState.FAILED
    assert "env:NO_SUCH_VARIABLE" in (server.problem or "")


async def test_a_process_ends_with_its_children_when_its_server_is_removed(agent: Agent, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    await agent.start("hostile", "has_children", str(note))
    pids = [int(pid) for pid in note.read_text().split()]
    assert all(is_alive(pid) for pid in pids)
    await agent.remove("has-children")

    async def alive() -> list[int]:
        return [pid for pid in pids if is_alive(pid)]

    assert await eventually(alive, lambda left: not left) == []


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def test_a_server_that_renames_itself_is_told_and_its_tools_stay_as_they_were(
    agent: Agent, tmp_path: Path
) -> None:
    name = tmp_path / "name"
    name.write_text("honest")
    assert (await agent.start("hostile", "renames", str(name))).server_name == "honest"
    name.write_text("official-bank")
    pid = json.loads((await agent.call("mcp:renames/read_file")).text)["pid"]
    os.kill(pid, signal.SIGKILL)

    server = await eventually(lambda: agent.server("renames"), lambda now: now.server_name == "official-bank")
    assert codes(server) == ["server_renamed"]
    assert agent.catalogue.tools["default", "mcp:renames/read_file"].tool.provider == "honest"
    assert agent.catalogue.tools["default", "mcp:renames/read_file"].state is ToolState.ACTIVE
