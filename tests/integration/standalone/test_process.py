"""`skillbus up` as a process: its start, its end, and what it leaves."""

import asyncio
import json
import os
import re
import signal
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from skillbus.common.testing import eventually
from skillbus.standalone.app import StandaloneSettings, StartError, open_standalone
from skillbus.standalone.nats_server import NatsServer

from .conftest import WAIT_S, Started, Up, read_headers
from .packages import package


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(pid: int) -> set[int]:
    """Processes below one, whatever their depth."""
    parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


async def alive(pids: set[int]) -> set[int]:
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return {pid for pid in pids if runs(pid)}


def argv(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def _nats_below(started: Started) -> set[int]:
    return {pid for pid in descendants(started.pid) if "nats-server" in argv(pid)}


async def test_a_second_start_on_the_same_data_is_refused_and_sigterm_ends_the_first_and_everything_that_it_started(
    up: Up, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    started = await up(None, "--log-level", "DEBUG")
    document = await started.document()
    note = (tmp_path / "data" / "connection.json").read_text()
    below = descendants(started.pid)
    assert len(_nats_below(started)) == 1
    secrets = await _check_that_secrets_are_the_owners(http, document, tmp_path / "data", {started.pid, *below})

    second = await up()
    assert await second.ended(WAIT_S) == 1
    said = await second.output() + second.errors()
    assert str(started.pid) in said
    assert str(tmp_path / "data") in said
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if "in use" in line]) == 1

    for path in ("/healthz", "/readyz"):
        assert (await http.get(f"{document['http_url']}{path}")).status_code == 200
    assert (tmp_path / "data" / "connection.json").read_text() == note

    assert await started.stop(signal.SIGTERM) == 0

    assert await eventually(lambda: alive(below), lambda alive: not alive) == set()
    assert not (tmp_path / "data" / "connection.json").exists()
    for url in (document["http_url"], document["nats_url"]):
        address = urlsplit(url)
        with pytest.raises(httpx.ConnectError):
            await http.get(f"http://{address.hostname}:{address.port}/")
    assert "Traceback" not in started.errors()
    said = await started.output() + started.errors() + json.dumps(document)
    said += (tmp_path / "data" / "nats" / "nats-server.log").read_text(errors="replace")
    assert not [secret for secret in secrets if secret in said]


async def test_killed_it_leaves_no_nats_server_and_what_it_had_accepted_is_there_at_the_next_start(
    up: Up, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    killed = await up()
    url = (await killed.document())["http_url"]
    http.headers.update(read_headers(tmp_path / "data"))
    accepted = await http.post(
        f"{url}/api/skills", files={"package": ("p.zip", package("weather", "查询城市天气预报"))}
    )
    assert accepted.status_code == 201
    nats = _nats_below(killed)
    assert len(nats) == 1
    assert await killed.stop(signal.SIGKILL) == -signal.SIGKILL
    assert await eventually(lambda: alive(nats), lambda alive: not alive) == set()
    again = await up()
    url = (await again.document())["http_url"]

    async def found() -> list[str]:
        answer = await http.post(f"{url}/api/tools/search", json={"query": "明天天气怎么样", "tool_types": ["skill"]})
        return [hit["name"] for hit in answer.json().get("results", [])]

    assert await eventually(found, bool) == ["weather"]
    assert await again.stop(signal.SIGINT) == 0


async def _check_that_secrets_are_the_owners(
    http: httpx.AsyncClient, document: dict[str, str], data: Path, processes: set[int]
) -> tuple[str, ...]:
    """Check that requests need a key, and that secrets are in files of the owner only. Return the secrets."""
    note = data / "connection.json"
    told = json.loads(note.read_text())
    secrets = (told["nats_token"], told["api_key"])
    assert all(len(secret) >= 24 for secret in secrets)
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert (told["nats_url"], told["http_url"]) == (document["nats_url"], document["http_url"])
    answers = [
        (await http.get(f"{document['http_url']}/api/skills", headers=headers)).status_code
        for headers in ({}, read_headers(data))
    ]
    assert answers == [401, 200]
    for pid in processes:
        shown = argv(pid) + Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        assert not [secret for secret in secrets if secret in shown]
    readable = [path for path in data.rglob("*") if path.is_file() and _is_open_to_others(path)]
    assert [path.name for path in readable if any(secret.encode() in path.read_bytes() for secret in secrets)] == []
    assert (data / "owner.key").read_text().strip() == told["api_key"]
    return secrets


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (("--host", "0.0.0.0"), {}, "SKILLBUS_GATEWAY_TLS_IN_FRONT"),
        (("--host", "0.0.0.0", "--no-key"), {"SKILLBUS_GATEWAY_TLS_IN_FRONT": "true"}, "SKILLBUS_GATEWAY_OWNER_KEY"),
        (("--no-key",), {"SKILLBUS_OWNER_KEY": "0123456789abcdef"}, "--no-key"),
        ((), {"SKILLBUS_OWNER_KEY": "short"}, "openssl rand -hex 32"),
    ],
)
async def test_a_start_that_strangers_could_use_is_refused_before_anything_is_started(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    host = options[1] if "--host" in options else "127.0.0.1"
    settings = StandaloneSettings(data=tmp_path / "data", http_host=host, http_port=0, no_key="--no-key" in options)
    with pytest.raises(StartError, match=re.escape(said)) as refused:
        async with open_standalone(settings):
            pass
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "data" / "nats").exists()


async def test_without_a_key_a_program_of_the_machine_may_use_it_and_start_nothing(
    up: Up, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "mcp.json").write_text('{"mcpServers": {"shell": {"command": "/bin/sh"}}}')
    (data / "mcp.json").chmod(0o600)
    url = (await (await up(None, "--no-key")).document())["http_url"]
    assert "api_key" not in json.loads((data / "connection.json").read_text())
    assert not (data / "auth.header").exists()
    refused = await http.post(f"{url}/api/mcp-servers", json={"name": "owned", "command": "/bin/sh"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert (await http.get(f"{url}/api/mcp-servers")).json()["servers"] == []
    assert (await http.get(f"{url}/api/skills")).status_code == 200


async def test_a_port_that_is_taken_is_named_and_nothing_is_left_running(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=str(port)):
            async with open_standalone(StandaloneSettings(data=tmp_path / "data", http_port=port)):
                pass
    assert await eventually(lambda: alive(descendants(os.getpid()) - before), lambda alive: not alive) == set()
    assert not (tmp_path / "data" / "connection.json").exists()


async def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(StartError, match=re.escape(str(tmp_path / "file" / "data"))):
        async with open_standalone(StandaloneSettings(data=tmp_path / "file" / "data", http_port=0)):
            pass


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


async def test_nats_lets_nobody_in_without_the_token(nats_server: NatsServer) -> None:
    address = urlsplit(nats_server.address.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    async with asyncio.timeout(5):
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert (await reader.readline()).startswith(b"-ERR 'Authorization Violation'")
        writer.close()
        await writer.wait_closed()
