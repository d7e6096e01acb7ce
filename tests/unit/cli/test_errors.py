import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from skillbus.cli.client.http_api import ADVICE
from skillbus.cli.server.launcher import Externals
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode

from .conftest import CommandLine
from .fake_server import FakeServer, Json, problem

COMMANDS = [["skills", "list"], ["search", "x"], ["run", "greet"], ["skills", "remove", "--yes", "greet"], ["status"]]


def answering(answer: Callable[[httpx.Request], httpx.Response]) -> Externals:
    return Externals(transport=httpx.MockTransport(answer))


def refusing_connections(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("Connection refused", request=request)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_server_that_cannot_be_reached_is_exit_3_and_says_how_to_start_it(
    skillbus: CommandLine, words: list[str]
) -> None:
    result = skillbus(*words, externals=answering(refusing_connections))

    assert result.exit_code == 3
    assert "skillbus up" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("words", COMMANDS)
def test_errors_in_json_are_one_document_on_stdout(skillbus: CommandLine, words: list[str]) -> None:
    result = skillbus(*words, "--json", externals=answering(refusing_connections))

    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"]["code"] == "unreachable"
    assert result.stderr == ""


def test_a_problem_is_printed_with_title_detail_code_and_advice(skillbus: CommandLine) -> None:
    full = problem(ErrorCode.OVERLOADED, "The sandbox is full.", {"queued": 12})

    result = skillbus("run", "greet", externals=answering(lambda _: full))

    assert result.exit_code == 1
    for said in (
        ERROR_CLASSES[ErrorCode.OVERLOADED].title,
        "The sandbox is full.",
        "overloaded",
        "HTTP 429",
        "queued: 12",
        "Try again",
    ):
        assert said in result.stderr


@pytest.mark.parametrize(
    ("code", "detail", "details", "lines"),
    [
        (
            ErrorCode.SKILL_NOT_FOUND,
            "No skill 'greet' is installed in project 'default'.",
            {"skill": "greet"},
            ["Error: No skill 'greet' is installed in project 'default'. (skill_not_found, HTTP 404)"],
        ),
        (
            ErrorCode.INVALID_ARGUMENTS,
            "$: 'expression' is a required property",
            {"path": "$"},
            [
                "Error: The arguments do not match the input schema (invalid_arguments, HTTP 422)",
                "  'expression' is a required property",
            ],
        ),
        (
            ErrorCode.UNKNOWN_ACTION,
            "greet has no action 'x'; there are: run, wave",
            {"actions": ["run", "wave"]},
            ["Error: greet has no action 'x'; there are: run, wave (unknown_action, HTTP 404)"],
        ),
    ],
)
def test_a_problem_says_each_thing_once(
    skillbus: CommandLine, code: ErrorCode, detail: str, details: Json, lines: list[str]
) -> None:
    refused = problem(code, detail, details)

    printed = skillbus("run", "greet", externals=answering(lambda _: refused)).stderr.splitlines()

    assert printed[:-1] == lines


def test_a_problem_in_json_is_the_servers_document_with_advice(skillbus: CommandLine) -> None:
    overloaded = problem(ErrorCode.OVERLOADED, "All permits are taken.", {"queued": 12})

    error = json.loads(skillbus("skills", "list", "--json", externals=answering(lambda _: overloaded)).stdout)["error"]

    assert (error["code"], error["status"], error["retryable"]) == ("overloaded", 429, True)
    assert error["details"] == {"queued": 12}
    assert error["advice"]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="<html>"),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"skills": "?"}),
        httpx.Response(500, json=["?"]),
        httpx.Response(302, headers={"Location": "http://elsewhere.example/"}),
    ],
)
def test_an_answer_that_is_not_one_of_skillbus_is_told(skillbus: CommandLine, answer: httpx.Response) -> None:
    result = skillbus("skills", "list", "--json", externals=answering(lambda _: answer))

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "strange_reply"


@pytest.mark.parametrize("error", [httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("gone"), httpx.ReadError("x")])
def test_a_connection_that_is_lost_is_exit_1(skillbus: CommandLine, error: httpx.TransportError) -> None:
    def lose(_: httpx.Request) -> httpx.Response:
        raise error

    result = skillbus("skills", "list", "--json", externals=answering(lose))

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "no_answer"


def test_operations_that_a_message_names_are_commands_for_people_and_whole_for_programs(skillbus: CommandLine) -> None:
    refusal = problem(ErrorCode.NOT_FOUND, "no model 'x' is registered; `list_models` names them, not `base_url`")
    externals = answering(lambda _: refusal)
    shown = skillbus("models", "default", "x", externals=externals).stderr
    assert "`skillbus models list` names them, not `base_url`" in shown
    assert "`list_models`" in skillbus("models", "default", "x", "--json", externals=externals).stdout


def test_escape_sequences_of_a_problem_do_not_reach_the_terminal(skillbus: CommandLine) -> None:
    evil = problem(ErrorCode.INTERNAL, "x\x1b]0;title\x07y", {"note": "\x1b[2J"})

    assert "\x1b" not in skillbus("skills", "list", externals=answering(lambda _: evil)).stderr


def test_every_code_of_the_contract_has_advice() -> None:
    assert set(ADVICE) == set(ErrorCode)


def test_the_key_and_the_address_come_from_the_environment(
    skillbus: CommandLine, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLBUS_URL", "http://bus.example:81/under")
    monkeypatch.setenv("SKILLBUS_API_KEY", "k1")

    skillbus("skills", "list")

    assert str(server.requests[0].url).startswith("http://bus.example:81/under/api/skills")
    assert server.requests[0].headers["Authorization"] == "Bearer k1"


@pytest.mark.parametrize(("key", "sent"), [(None, "owner"), ("mine", "mine")])
def test_the_owners_key_is_sent_where_no_other_is_set(
    skillbus: CommandLine, server: FakeServer, monkeypatch: pytest.MonkeyPatch, key: str | None, sent: str
) -> None:
    monkeypatch.setenv("SKILLBUS_OWNER_KEY", "owner")
    if key is not None:
        monkeypatch.setenv("SKILLBUS_API_KEY", key)

    skillbus("skills", "list")

    assert server.requests[0].headers["Authorization"] == f"Bearer {sent}"


@pytest.mark.parametrize("command", ["up", "demo", "skills list", "run"])
def test_help_names_the_owners_key(skillbus: CommandLine, command: str) -> None:
    assert "SKILLBUS_OWNER_KEY" in skillbus(*command.split(), "--help").stdout


@pytest.mark.parametrize(
    "words", [["--url", "ftp://x"], ["--url", "http://"], ["--url", "x:80"], ["--api-key", "schlüssel"]]
)
def test_an_address_or_key_that_cannot_be_used_is_wrong_usage(
    skillbus: CommandLine, server: FakeServer, words: list[str]
) -> None:
    result = skillbus("skills", "list", *words)

    assert result.exit_code == 2
    assert f"Invalid value for {words[0]}:" in result.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["runs", "list", "--limit", "x"], "Invalid value for '--limit': must be a valid integer\n"),
        (["learn", "jobs", "--status", "x"], "Invalid value for '--status': 'x' is not one of 'queued'"),
    ],
)
def test_a_wrong_value_is_explained_without_words_of_pydantic(
    skillbus: CommandLine, words: list[str], told: str
) -> None:
    result = skillbus(*words)
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


def test_an_install_without_a_server_is_exit_3_and_tries_once(skillbus: CommandLine, skill_folder: Path) -> None:
    tried: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        tried.append(request)
        return refusing_connections(request)

    result = skillbus("install", str(skill_folder), str(skill_folder), externals=answering(refuse))

    assert result.exit_code == 3
    assert len(tried) == 1


def test_a_machine_that_cannot_isolate_is_explained_once(skillbus: CommandLine) -> None:
    detail = "bubblewrap 0.11.0: no permission. Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)."
    refused = problem(ErrorCode.SANDBOX_UNAVAILABLE, detail, {"reason": detail})
    printed = skillbus("run", "greet", externals=answering(lambda _: refused)).stderr
    assert printed.count("user namespaces") == printed.count("isolate") == 1


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["list"], "skillbus skills list"),
        (["remove", "greet"], "skillbus skills remove"),
        (["import", "knowledge", "x"], "skillbus knowledge import"),
        (["export", "knowledge", "x"], "skillbus knowledge export"),
        (["index", "status"], "skillbus index list"),
        (["tools", "call", "x"], "skillbus call"),
    ],
)
def test_a_command_of_before_is_refused_with_its_new_name(
    skillbus: CommandLine, server: FakeServer, words: list[str], now: str
) -> None:
    result = skillbus(*words)
    assert (result.exit_code, server.requests) == (2, [])
    assert now in result.stderr
