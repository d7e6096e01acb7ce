"""Commands of MCP servers: the operator's file starts them, and nothing that a request says."""

import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from pydantic import JsonValue
from tests.mcp_file import add_script

from skillbus.agent.adapters.disk_operator_file import DiskOperatorFile, check_owner, read_operator_file
from skillbus.agent.domain.servers.operator_file import OperatorFileError
from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.agent import HEALTH
from skillbus.contracts.agent.mcp_servers import (
    LIST_MCP_SERVERS,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    ListMcpServers,
    McpServer,
    McpServerSelector,
    McpServersListed,
    McpServerState,
)
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.resources import MCP_SERVERS
from skillbus.standalone.app import Standalone, StandaloneSettings, open_standalone

from .conftest import SERVERS, Agent

GOOD = b'{"mcpServers": {"files": {"command": "npx"}}}'


def write(file: Path, content: bytes, mode: int = 0o600) -> None:
    file.write_bytes(content)
    file.chmod(mode)


def attacks(marker: Path) -> list[dict[str, JsonValue]]:
    """Bodies of requests whose command would create the marker."""
    command: dict[str, JsonValue] = {"command": "/bin/sh", "args": ["-c", f"touch {marker}"]}
    owned: dict[str, JsonValue] = {"name": "owned", "timeout_s": 1}
    return [
        owned | command,
        owned | command | {"url": "http://127.0.0.1:9/mcp"},
        owned | {"mcpServers": {"a": command}},
    ]


async def answer(bus: Bus, subject: str, body: JsonValue) -> dict[str, str]:
    message = await bus.client.request(subject, httpx.Request("POST", "http://a", json=body).content, timeout=5)
    return message.headers or {}


async def list_all(bus: Bus) -> McpServersListed:
    return await bus.caller.call(LIST_MCP_SERVERS, ListMcpServers())


async def test_a_request_over_the_bus_starts_no_command_whoever_sends_it(agent: Agent, tmp_path: Path) -> None:
    marker = tmp_path / "owned"
    for body in attacks(marker):
        headers = await answer(agent.bus, REGISTER_MCP_SERVER.subject, body)
        assert headers["Nats-Service-Error-Code"] == "400"
    assert (await list_all(agent.bus)).servers == ()
    # A server of the file starts after that, so that a command of before would have run.
    assert (await agent.start("hostile", "plain", timeout_s=20)).state is McpServerState.CONNECTED
    assert not marker.exists()


async def test_a_command_in_the_bucket_is_not_started(agent: Agent, tmp_path: Path) -> None:
    """Earlier versions stored commands there; whoever may write the bucket may forge one."""
    marker = tmp_path / "owned"
    bucket = await agent.bus.jetstream.key_value(MCP_SERVERS.name)
    forged: list[dict[str, JsonValue]] = [{}, {"in_file": True}, {"url": None}]
    for number, more in enumerate(forged):
        registration = attacks(marker)[0] | {"name": f"owned{number}", "project": "default"} | more
        record = {"registration": registration, "id": "a", "registered_at": "2026-01-01T00:00:00Z"}
        content = httpx.Request("POST", "http://a", json=record).content
        await bucket.put(f"default.owned{number}", content)

    async def refresh(name: str) -> McpServer:
        return await agent.bus.caller.call(REFRESH_MCP_SERVER, McpServerSelector(name=name))

    for name in ("owned0", "owned2"):
        server = await refresh(name)
        assert server.state is McpServerState.FAILED
        assert "skillbus mcp add NAME -- COMMAND" in (server.problem or "")
    with suppress(RequestError):  # an entry of the file that is gone is removed within a second
        assert (await refresh("owned1")).state is not McpServerState.CONNECTED
    assert (await agent.start("hostile", "plain", timeout_s=20)).state is McpServerState.CONNECTED
    assert not marker.exists()
    removed = await agent.bus.caller.call(REMOVE_MCP_SERVER, McpServerSelector(name="owned0"))
    assert removed.tools == 0


async def test_a_broken_file_is_in_the_status_of_the_agent_and_its_servers_stay(agent: Agent) -> None:
    await agent.start("hostile", "plain", timeout_s=20)
    good = agent.mcp_file.read_bytes()
    write(agent.mcp_file, good[:-10])

    async def warning() -> str:
        health = await agent.bus.caller.call(HEALTH, Empty())
        assert health.ready
        return health.checks[0].warning

    assert "not JSON (line" in await eventually(warning, bool)
    assert "not JSON" in ((await list_all(agent.bus)).file_problem or "")
    assert not (await agent.call("mcp:plain/read_file")).is_error
    write(agent.mcp_file, good, mode=0o620)
    assert "chmod go-w" in await eventually(warning, lambda now: "JSON" not in now)
    agent.mcp_file.chmod(0o600)
    assert await eventually(warning, lambda now: not now) == ""


@pytest.mark.parametrize(("mode", "said"), [(0o620, "chmod go-w"), (0o602, "chmod go-w"), (0o646, "chmod go-w")])
def test_a_file_that_others_may_write_is_refused_with_the_chmod(tmp_path: Path, mode: int, said: str) -> None:
    file = tmp_path / "mcp.json"
    write(file, GOOD, mode)
    with pytest.raises(OperatorFileError, match=said):
        read_operator_file(file)
    file.chmod(0o644)
    assert read_operator_file(file) == GOOD


def test_a_file_in_a_folder_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    write(folder / "mcp.json", GOOD)
    with pytest.raises(OperatorFileError, match="chmod o-w"):
        read_operator_file(folder / "mcp.json")
    folder.chmod(0o1777)
    assert read_operator_file(folder / "mcp.json") == GOOD


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    write(file, GOOD)
    found = list(file.stat())
    found[4] = os.geteuid() + 1
    with pytest.raises(OperatorFileError, match=f"uid {os.geteuid() + 1}.*chown"):
        check_owner(file, os.stat_result(found))
    found[4] = 0
    check_owner(file, os.stat_result(found))


def test_what_is_not_a_plain_file_of_a_bounded_size_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "large"):
        if path.name == "large":
            write(path, b" " * (1024 * 1024 + 1))
        with pytest.raises(OperatorFileError):
            read_operator_file(path)
    assert read_operator_file(tmp_path / "absent") is None


async def test_a_file_that_an_editor_writes_anew_is_not_taken_for_removed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    write(path, GOOD)
    file = DiskOperatorFile(path)
    assert await file.has_changed()
    assert await file.read() == GOOD
    assert not await file.has_changed()
    path.unlink()
    assert not await file.has_changed()
    write(path, GOOD)
    assert await file.has_changed()
    await file.read()
    path.unlink()

    async def changed() -> bool:
        return await file.has_changed()

    assert await eventually(changed, bool)
    assert await file.read() is None


@pytest.fixture
async def standalone(tmp_path: Path) -> AsyncGenerator[Standalone]:
    async with open_standalone(StandaloneSettings(data=tmp_path / "data", http_port=0)) as running:
        yield running


async def test_a_request_over_http_starts_no_command_and_says_how_to_add_it(
    standalone: Standalone, tmp_path: Path
) -> None:
    marker, caller = tmp_path / "owned", standalone.bus.caller
    headers = standalone.http_headers
    async with httpx.AsyncClient(base_url=standalone.http_url, headers=headers, trust_env=False) as client:
        refused = [await client.post("/api/mcp-servers", json=body) for body in attacks(marker)]
    assert {(one.status_code, one.json()["code"]) for one in refused} == {(400, "invalid_request")}
    assert ["skillbus mcp add NAME -- COMMAND" in one.text for one in refused] == [True, True, False]
    words = [SERVERS / "hostile.py", "plain"]
    server = await add_script(caller, standalone.data / "mcp.json", "plain", words, timeout_s=20)
    assert server.state is McpServerState.CONNECTED
    assert not marker.exists()
