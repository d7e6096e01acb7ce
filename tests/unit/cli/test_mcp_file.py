"""`skillbus mcp add`, `remove` and `import` on the operator's file."""

import fcntl
import json
import os
import stat
from pathlib import Path

import httpx
import pytest

from skillbus.cli.server.launcher import Externals
from skillbus.cli.tools import mcp_commands, mcp_file
from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_server import Json, problem
from .fake_tools import FakeTools, server_record

COMMAND = ["--", "npx", "-y", "@modelcontextprotocol/server-everything"]
FROM_FILE = server_record("every", source="file", transport="stdio", address="npx -y server")


@pytest.fixture
def tools() -> FakeTools:
    fake = FakeTools()
    fake.answers["refresh"] = FROM_FILE
    fake.answers["GET /api/mcp-servers"] = {"servers": []}
    return fake


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a skillbus that runs at the default address."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "skillbus.lock").touch()
    note = {"http_url": "http://127.0.0.1:8080/", "pid": os.getpid(), "api_key": "the-owner's-key"}
    (folder / "connection.json").write_text(json.dumps(note))
    return folder


def entries(data: Path) -> Json:
    document: Json = json.loads((data / "mcp.json").read_bytes())
    servers = document["mcpServers"]
    assert isinstance(servers, dict)
    return servers


def write(data: Path, **servers: object) -> None:
    (data / "mcp.json").write_text(json.dumps({"kept": 1, "mcpServers": servers}))
    (data / "mcp.json").chmod(0o600)


def nobody_answers() -> Externals:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    return Externals(transport=httpx.MockTransport(refuse))


def test_a_command_is_written_to_the_file_and_started_by_no_request(
    skillbus: CommandLine, tools: FakeTools, data: Path
) -> None:
    words = ["--env", "A=b=c", "--timeout", "5", "--data", str(data), "--server", "http://localhost:8080", *COMMAND]
    result = skillbus("mcp", "add", "every", *words, externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert entries(data) == {
        "every": {"command": "npx", "args": COMMAND[2:], "env": {"A": "b=c"}, "timeout_s": 5.0},
    }
    assert stat.S_IMODE((data / "mcp.json").stat().st_mode) == 0o600
    assert [(method, path) for method, path, _ in tools.requests] == [("POST", "/api/mcp-servers/every/refresh")]
    assert result.stdout.splitlines()[-1].split()[:3] == ["every", "mcp.json", "connected"]


def test_a_slow_first_start_is_waited_for_with_a_note_and_its_failure_is_shown_whole(
    skillbus: CommandLine, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_commands, "_LOOK_EVERY_S", 0)
    said = [f"npm error line {number} of some eighty characters, as those of programs are" for number in range(6)]
    connecting = FROM_FILE | {"state": "connecting"}
    failed = FROM_FILE | {"state": "failed", "problem": f"its process ended; its last output: {' / '.join(said)}"}
    answers = iter([connecting, connecting, failed])
    externals = Externals(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=next(answers))))
    result = skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=externals)
    assert (result.exit_code, list(answers)) == (1, [])
    assert result.stderr.count("may download a package") == 1
    assert [line for line in said if line not in result.stderr] == []


def test_other_entries_and_unknown_keys_stay(skillbus: CommandLine, tools: FakeTools, data: Path) -> None:
    write(data, other={"command": "a", "of_another_program": [1]}, every={"command": "old"})
    arguments = ["--data", str(data), "--project", "p", *COMMAND]
    assert skillbus("mcp", "add", "every", *arguments, externals=tools.externals()).exit_code == 0
    assert json.loads((data / "mcp.json").read_bytes())["kept"] == 1
    assert entries(data) == {
        "other": {"command": "a", "of_another_program": [1]},
        "every": {"command": "npx", "args": COMMAND[2:], "project": "p"},
    }
    assert [file.name for file in data.iterdir() if file.name.startswith(".")] == []


def test_a_skillbus_that_does_not_run_starts_it_later(skillbus: CommandLine, data: Path) -> None:
    (data / "connection.json").unlink()
    result = skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=nobody_answers())
    assert (result.exit_code, list(entries(data))) == (0, ["every"])
    assert ("when it starts" in result.stderr, f"added to {data}" in " ".join(result.stdout.split())) == (True, True)
    removed = skillbus("mcp", "remove", "every", "--yes", "--data", str(data), externals=nobody_answers())
    assert (removed.exit_code, entries(data)) == (0, {})


def test_the_key_is_that_of_the_data_directory_which_is_named(skillbus: CommandLine, data: Path) -> None:
    sent = list[str | None]()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("Authorization"))
        return httpx.Response(200, json=FROM_FILE)

    externals = Externals(transport=httpx.MockTransport(answer))
    assert skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=externals).exit_code == 0
    assert sent == ["Bearer the-owner's-key"]


def test_nothing_of_this_machine_is_changed_for_a_server_of_another(
    skillbus: CommandLine, tools: FakeTools, data: Path
) -> None:
    (data / "connection.json").unlink()
    write(data, every={"command": "a"})
    words = ["--data", str(data), "--server", "http://bus.example:8080"]
    assert skillbus("mcp", "add", "new", *words, *COMMAND, externals=tools.externals()).exit_code == 1
    tools.answers["every"] = {"name": "every", "tools": 3}
    assert skillbus("mcp", "remove", "every", "--yes", *words, externals=tools.externals()).exit_code == 0
    assert list(entries(data)) == ["every"]


def test_an_entry_of_another_project_is_not_removed(skillbus: CommandLine, tools: FakeTools, data: Path) -> None:
    write(data, every={"command": "a"})
    tools.answers["every"] = problem(ErrorCode.NOT_FOUND, "not in this project")
    words = ["remove", "every", "--yes", "--project", "shop", "--data", str(data)]
    assert skillbus("mcp", *words, externals=tools.externals()).exit_code == 1
    assert list(entries(data)) == ["every"]


def test_an_edit_keeps_the_mode_of_the_file(skillbus: CommandLine, tools: FakeTools, data: Path) -> None:
    write(data, other={"command": "b"})
    (data / "mcp.json").chmod(0o644)
    assert skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=tools.externals()).exit_code == 0
    assert stat.S_IMODE((data / "mcp.json").stat().st_mode) == 0o644


def test_a_folder_that_another_program_locks_is_waited_for_five_seconds_at_most(
    skillbus: CommandLine, tools: FakeTools, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_file, "_LOCK_S", 0.1)
    descriptor = os.open(data, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        refused = skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=tools.externals())
    finally:
        os.close(descriptor)
    assert (refused.exit_code, "locked by another program" in refused.stderr) == (1, True)


def test_a_command_is_added_only_where_skillbus_runs(
    skillbus: CommandLine, tools: FakeTools, data: Path, tmp_path: Path
) -> None:
    nowhere = skillbus("mcp", "add", "every", "--data", str(tmp_path), *COMMAND, externals=tools.externals())
    assert (nowhere.exit_code, "not the data directory" in nowhere.stderr) == (1, True)
    words = ["--data", str(data), "--server", "http://10.0.0.1:8080", *COMMAND]
    other = skillbus("mcp", "add", "every", *words, externals=tools.externals())
    assert (other.exit_code, "Give --server http://127.0.0.1:8080/" in other.stderr) == (1, True)
    assert (tools.requests, (data / "mcp.json").exists(), (tmp_path / "mcp.json").exists()) == ([], False, False)


def test_a_file_can_be_named_where_an_agent_follows_another(
    skillbus: CommandLine, tools: FakeTools, tmp_path: Path
) -> None:
    words = ["--file", str(tmp_path / "mcp.json"), *COMMAND]
    assert skillbus("mcp", "add", "every", *words, externals=tools.externals()).exit_code == 0
    assert list(entries(tmp_path)) == ["every"]


@pytest.mark.parametrize("answer", [problem(ErrorCode.NOT_FOUND, "no MCP server"), server_record("every")])
def test_a_server_that_does_not_follow_the_file_is_told(
    skillbus: CommandLine, tools: FakeTools, data: Path, answer: Json | httpx.Response
) -> None:
    tools.answers["refresh"] = answer
    result = skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=tools.externals())
    assert (result.exit_code, "does not follow it" in result.stderr) == (1, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_user_does_not_add_commands(skillbus: CommandLine, tools: FakeTools, data: Path) -> None:
    os.chown(data, 65534, 65534)
    result = skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=tools.externals())
    assert (result.exit_code, "another user (uid 65534)" in result.stderr) == (1, True)
    assert not (data / "mcp.json").exists()


@pytest.mark.parametrize("content", ["{", '{"mcpServers": {"bad name": {"command": "secret"}}}'])
def test_a_file_that_is_broken_is_not_written(
    skillbus: CommandLine, tools: FakeTools, data: Path, content: str
) -> None:
    (data / "mcp.json").write_text(content)
    (data / "mcp.json").chmod(0o600)
    result = skillbus("mcp", "add", "every", "--data", str(data), *COMMAND, externals=tools.externals())
    assert (result.exit_code, (data / "mcp.json").read_text(), tools.requests) == (1, content, [])
    assert "secret" not in result.output


def test_a_file_that_others_may_write_is_not_taken_over(skillbus: CommandLine, tools: FakeTools, data: Path) -> None:
    write(data, every={"command": "evil"})
    (data / "mcp.json").chmod(0o666)
    result = skillbus("mcp", "add", "mine", "--data", str(data), *COMMAND, externals=tools.externals())
    assert (result.exit_code, "chmod go-w" in result.stderr, list(entries(data))) == (1, True, ["every"])


def test_a_server_of_the_file_is_removed_from_it_with_its_tools(
    skillbus: CommandLine, tools: FakeTools, data: Path
) -> None:
    write(data, every={"command": "a"}, other={"command": "b"})
    tools.answers["every"] = {"name": "every", "tools": 3}
    words = ["remove", "every", "--yes", "--data", str(data)]
    removed = skillbus("mcp", *words, externals=tools.externals())
    assert (removed.stdout, list(entries(data))) == ("every: removed with 3 tools\n", ["other"])
    tools.answers["other"] = problem(ErrorCode.NOT_FOUND, "the agent was faster")
    words[1] = "other"
    assert skillbus("mcp", *words, externals=tools.externals()).exit_code == 0
    assert entries(data) == {}
    assert skillbus("mcp", *words, externals=tools.externals()).exit_code == 1  # in no file, and not registered


def test_servers_are_listed_with_where_they_come_from_and_what_is_wrong_with_the_file(
    skillbus: CommandLine, tools: FakeTools
) -> None:
    servers = [FROM_FILE, server_record("far")]
    tools.answers["GET /api/mcp-servers"] = {"servers": servers, "file_problem": "run `chmod go-w mcp.json`"}
    result = skillbus("mcp", "list", externals=tools.externals())
    assert [line.split()[:2] for line in result.stdout.splitlines()[-2:]] == [["every", "mcp.json"], ["far", "request"]]
    assert "run `chmod go-w mcp.json`" in result.stderr


DESKTOP = {
    "mcpServers": {
        "GitHub Tools": {"command": "npx", "args": ["-y", "github"], "env": {"TOKEN": "${GITHUB_TOKEN}", "A": "b"}},
        "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": "${FAR}"}},
        "known": {"command": "new"},
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "mixed": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "nothing": {},
        "off": {"command": "npx", "disabled": True, "env": {"PORT": 80, "KEY": "${env:KEY}"}},
        "here": {"command": "x", "cwd": "/tmp", "alwaysAllow": ["a"]},
        "home": {"command": "${HOME}/bin/x"},
    }
}


def test_the_servers_of_a_desktop_client_are_taken_over(
    skillbus: CommandLine, tools: FakeTools, data: Path, tmp_path: Path
) -> None:
    write(data, known={"command": "mine"})
    source = tmp_path / "claude_desktop_config.json"
    source.write_text(json.dumps(DESKTOP))
    words = ["import", str(source), "--data", str(data)]
    asked = skillbus("mcp", *words, externals=tools.externals())
    assert (asked.exit_code, entries(data)) == (2, {"known": {"command": "mine"}})  # nobody can be asked

    result = skillbus("mcp", *words, "--yes", externals=tools.externals())
    assert result.exit_code == 1  # some could not be taken over
    assert entries(data) == {
        "known": {"command": "mine"},
        "github-tools": {"command": "npx", "args": ["-y", "github"], "env": {"TOKEN": "env:GITHUB_TOKEN", "A": "b"}},
        "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": "env:FAR"}},
        "off": {"command": "npx", "disabled": True, "env": {"PORT": "80", "KEY": "env:KEY"}},
        "here": {"command": "x", "cwd": "/tmp", "alwaysAllow": ["a"]},
    }
    said = " ".join(result.stdout.split())
    for part in (
        *("npx -y github", "skipped", "SSE", "give either", "to add, disabled", "does not use alwaysAllow, cwd"),
        *("`headers` has a ${VARIABLE} inside a value: write the value, or put", "`command` has a ${VARIABLE}"),
    ):
        assert part in said
    refreshed = [path for method, path, _ in tools.requests if method == "POST"]
    assert refreshed == [f"/api/mcp-servers/{name}/refresh" for name in ("github-tools", "far", "here")]

    skillbus("mcp", *words, "--yes", "--replace", externals=tools.externals())
    assert entries(data)["known"] == {"command": "new"}


def test_a_registered_server_counts_as_known(
    skillbus: CommandLine, tools: FakeTools, data: Path, tmp_path: Path
) -> None:
    tools.answers["GET /api/mcp-servers"] = {"servers": [server_record("a")]}
    source = tmp_path / "mcp.json"  # VS Code's
    source.write_text('{"servers": {"a": {"type": "stdio", "command": "b"}}}')
    result = skillbus("mcp", "import", str(source), "--yes", "--data", str(data), externals=tools.externals())
    assert (result.exit_code, "skipped" in result.stdout, (data / "mcp.json").exists()) == (0, True, False)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"mcpServers": {}}'])
def test_a_file_without_servers_is_told(
    skillbus: CommandLine, tools: FakeTools, data: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "a.json").write_text(content)
    for source in (tmp_path / "a.json", tmp_path / "absent.json"):
        result = skillbus("mcp", "import", str(source), "--yes", "--data", str(data), externals=tools.externals())
        assert (result.exit_code, source.name in result.stderr) == (1, True)
