"""`skillbus keys`, and the key that commands find by themselves."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from skillbus.cli.server.launcher import Externals
from skillbus.client.local_server import LocalServer, read_local_server
from skillbus.contracts.errors import ErrorCode
from skillbus.standalone.data_directory import load_owner_key, write_connection_note

from .conftest import CommandLine
from .fake_server import FakeServer, problem

KEY = {
    "id": "7k2m9qx4vt",
    "label": "build server",
    "role": "runner",
    "projects": ["default"],
    "created_at": "2026-11-01T00:00:00Z",
    "created_by": "owner",
    "expires_at": "2099-12-01T00:00:00Z",
    "revoked_at": None,
    "last_used_at": "2026-11-20T10:30:00Z",
}
TEXT = "skb_7k2m9qx4vt_" + "s" * 43


class KeyServer:
    """Answers `/api/keys` and remembers the requests."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path.endswith("/unknown"):
            return problem(ErrorCode.NOT_FOUND, "There is no key 'unknown'.")
        if request.method == "GET":
            return httpx.Response(200, json={"keys": [KEY]})
        more = {"made_keys": ["0000000001"]} if request.method == "DELETE" else {"key": TEXT}
        return httpx.Response(200, json={**KEY, **more})

    @property
    def externals(self) -> Externals:
        return Externals(transport=httpx.MockTransport(self))


def test_a_key_is_made_and_shown_once(skillbus: CommandLine) -> None:
    server = KeyServer()
    words = ("--label", "build server", "--role", "runner", "--project", "a", "--project", "b", "--expires", "30d")
    result = skillbus("keys", "create", *words, externals=server.externals)
    assert result.exit_code == 0, result.output
    assert TEXT in result.stdout
    assert "never shown again" in result.stdout
    sent = json.loads(server.requests[0].content)
    assert sent == {"label": "build server", "role": "runner", "projects": ["a", "b"], "expires_in_s": 2_592_000.0}


def test_a_key_is_a_reader_of_the_default_project_unless_more_is_asked_for(skillbus: CommandLine) -> None:
    server = KeyServer()
    assert skillbus("keys", "create", "--label", "x", "--json", externals=server.externals).exit_code == 0
    assert json.loads(server.requests[0].content) == {"label": "x", "role": "reader", "projects": ["default"]}


@pytest.mark.parametrize("time", ["30", "0d", "-1d", "1m", "30 d", "1e3d", "99999y"])
def test_a_lifetime_that_is_none_is_wrong_usage(skillbus: CommandLine, time: str) -> None:
    server = KeyServer()
    result = skillbus("keys", "create", "--label", "x", f"--expires={time}", externals=server.externals)
    assert (result.exit_code, server.requests) == (2, [])


def test_keys_are_listed_with_their_last_use(skillbus: CommandLine) -> None:
    result = skillbus("keys", "list", externals=KeyServer().externals)
    assert "7k2m9qx4vt" in result.stdout
    listed = json.loads(skillbus("keys", "list", "--json", externals=KeyServer().externals).stdout)
    assert listed["keys"][0]["last_used_at"] == "2026-11-20T10:30:00Z"


def test_keys_are_revoked_one_by_one_after_a_question(skillbus: CommandLine) -> None:
    server = KeyServer()
    assert skillbus("keys", "revoke", "7k2m9qx4vt", externals=server.externals).exit_code == 2
    assert server.requests == []
    result = skillbus("keys", "revoke", "unknown", "7k2m9qx4vt", "--yes", externals=server.externals)
    assert result.exit_code == 1
    assert "7k2m9qx4vt: revoked" in result.stdout
    assert "7k2m9qx4vt made other keys, which have ended with it: 0000000001" in result.stderr
    assert [(it.method, it.url.path) for it in server.requests][-1] == ("DELETE", "/api/keys/7k2m9qx4vt")


def test_a_command_sends_the_key_of_the_server_that_runs_on_this_data(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLBUS_DATA", str(tmp_path))
    with write_connection_note(tmp_path, "http://127.0.0.1:8080", "nats://127.0.0.1:1", "token", "the-owner's-key"):
        skillbus("skills", "list")
        skillbus("skills", "list", "--url", "http://localhost:8080")
        skillbus("skills", "list", "--url", "http://127.0.0.1:8081")
        skillbus("skills", "list", "--url", "http://bus.example:8080")
        skillbus("skills", "list", "--api-key", "mine")
        skillbus("skills", "list", "--key", "mine")
    skillbus("skills", "list")
    sent = [request.headers.get("Authorization") for request in server.requests]
    owner, mine = "Bearer the-owner's-key", "Bearer mine"
    assert sent == [owner, owner, None, None, mine, mine, None]
    assert server.requests[1].url.host == "127.0.0.1"  # another user may listen on [::1]


def test_the_key_of_a_server_on_all_addresses_is_found(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLBUS_DATA", str(tmp_path))
    with write_connection_note(tmp_path, "http://0.0.0.0:8080", "nats://127.0.0.1:1", "token", "the-owner's-key"):
        skillbus("skills", "list")
    assert server.requests[0].headers["Authorization"] == "Bearer the-owner's-key"


def test_a_key_is_not_sent_to_whoever_took_the_port_of_a_server_that_was_killed(
    tmp_path: Path,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    note = {"http_url": "http://127.0.0.1:8080", "api_key": "the-owner's-key", "pid": os.getpid()}
    path = tmp_path / "connection.json"
    path.write_text(json.dumps(note))
    assert read_local_server(tmp_path) == LocalServer("http://127.0.0.1:8080", "the-owner's-key")
    path.write_text(json.dumps({**note, "pid": ended.pid}))
    assert read_local_server(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "\udcff", '{"pid": 1}', '{"api_key": "k", "pid": 10e99, "http_url": ""}']
)
def test_a_damaged_note_is_no_server(tmp_path: Path, text: str) -> None:
    (tmp_path / "connection.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_local_server(tmp_path) is None


def test_an_address_with_a_port_that_cannot_be_is_no_server() -> None:
    assert not LocalServer("http://127.0.0.1:8080", None).serves("http://127.0.0.1:99999")


def test_the_owners_key_is_made_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    key = load_owner_key(tmp_path)
    assert len(key) > 43
    assert load_owner_key(tmp_path) == key
    with write_connection_note(tmp_path, "http://127.0.0.1:1", "nats://127.0.0.1:1", "token", key):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        header = (tmp_path / "auth.header").read_text()
    assert modes == {"owner.key": 0o600, "connection.json": 0o600, "auth.header": 0o600}
    assert header == f"Authorization: Bearer {key}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["owner.key"]


def test_the_beginning_of_the_id_of_a_key_is_enough(skillbus: CommandLine) -> None:
    server = KeyServer()
    assert skillbus("keys", "revoke", "7k2m", "--yes", externals=server.externals).exit_code == 0
    assert server.requests[-1].url.path == "/api/keys/7k2m9qx4vt"
