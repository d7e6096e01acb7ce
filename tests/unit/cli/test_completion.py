import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from skillbus.cli.__main__ import create_app
from skillbus.cli.completion import complete_in_bash

KEY = "the-key-of-a-test"
LISTS: dict[str, object] = {
    "/api/skills": {"skills": [{"name": "git-commit"}, {"name": "text-diff"}]},
    "/api/tools": {"tools": [{"id": "builtin:calculate"}, {"id": "mcp:files/读"}, {"id": "mcp:files/write"}]},
    "/api/mcp-servers": {"servers": [{"name": "files"}]},
    "/api/embedding/models": {
        "models": [
            {"name": "small", "provider": "local", "kind": "embedding"},
            {"name": "smart", "provider": "remote", "kind": "chat"},
        ]
    },
    "/api/embedding/providers": {"providers": [{"name": "local"}]},
    "/api/knowledge": {"items": [{"id": "live-headers"}, {"id": "live-limits"}, {"id": "other"}]},
    "/api/runs": {"runs": [{"run_id": "a1b2"}]},
    "/api/keys": {"keys": [{"id": "k1"}]},
    "/api/homes": {"homes": [{"home": "家"}, {"home": "house"}]},
    "/api/devices": {"devices": [{"id": "lamp-1"}, {"id": "lamp-2"}]},
    "/api/commands": {"commands": [{"id": "switch.on"}]},
}


@dataclass
class ListServer:
    """HTTP server that answers with lists, or with one text for everything."""

    text: str | None = None
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def lists() -> Iterator[ListServer]:
    served = ListServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            served.queries.append(parse_qs(parts.query))
            is_known = self.headers["Authorization"] == f"Bearer {KEY}"
            found = LISTS[parts.path] if is_known else {"title": "no key", "status": 401}
            body = (served.text if served.text is not None else json.dumps(found)).encode()
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Write nothing to standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield served
        server.shutdown()


@pytest.fixture
def complete(lists: ListServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What fish offers for a line, which says one answer a line."""
    monkeypatch.setenv("SKILLBUS_URL", lists.url)
    monkeypatch.setenv("SKILLBUS_API_KEY", KEY)

    def run(line: str) -> list[str]:
        asked = {
            "_SKILLBUS_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        result = CliRunner().invoke(create_app(), [], env=asked, prog_name="skillbus")
        assert result.stderr == ""
        return [answer.partition("\t")[0] for answer in result.stdout.split("\n") if answer]

    return run


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("run g", ["git-commit"]),
        ("skills remove text-diff g", ["git-commit"]),
        ("runs list --skill t", ["text-diff"]),
        ("call mcp:", ["mcp:files/读", "mcp:files/write"]),
        ("tools disable b", ["builtin:calculate"]),
        ("mcp show f", ["files"]),
        ("models default s", ["small", "smart"]),
        ("models default lo", ["local/small"]),
        ("chat hello --model s", ["smart"]),
        ("chat hello --tool b", ["builtin:calculate"]),
        ("providers test l", ["local"]),
        ("index switch k", ["knowledge"]),
        ("knowledge show live-", ["live-headers", "live-limits"]),
        ("knowledge review approve o", ["other"]),
        ("runs show a", ["a1b2"]),
        ("keys revoke k", ["k1"]),
        ("resolve x --home h", ["house"]),
        ("devices list --home 家", ["家"]),
        ("devices remove l", ["lamp-1", "lamp-2"]),
        ("commands remove s", ["switch.on"]),
    ],
)
def test_names_are_completed_by_their_beginning(
    complete: Callable[[str], list[str]], line: str, answers: list[str]
) -> None:
    assert complete(f"skillbus {line}") == answers


def test_a_long_list_begins_where_the_word_does_and_in_its_project(
    complete: Callable[[str], list[str]], lists: ListServer
) -> None:
    complete("skillbus run --project acme g")
    assert lists.queries == [{"limit": ["200"], "after": ["g"], "project": ["acme"]}]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"skills": [1]}', '{"skills": null}'])
def test_a_strange_answer_completes_nothing_and_says_nothing(
    complete: Callable[[str], list[str]], lists: ListServer, text: str
) -> None:
    lists.text = text
    assert complete("skillbus run g") == []


@pytest.mark.parametrize("options", ["--url http://127.0.0.1:9", "--url nonsense", "--api-key wrong"])
def test_a_server_that_is_away_or_refuses_completes_nothing_and_says_nothing(
    complete: Callable[[str], list[str]], options: str
) -> None:
    assert complete(f"skillbus run {options} g") == []


def test_commands_are_completed_without_importing_them(complete: Callable[[str], list[str]]) -> None:
    sys.modules.pop("skillbus.cli.deployment.commands", None)
    assert complete("skillbus i") == ["init-deploy", "install", "index"]
    assert complete("skillbus skills s") == ["show"]
    assert "skillbus.cli.deployment.commands" not in sys.modules


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (["call", "mcp", ":", "files/w"], ["files/write"]),
        (["call", "mcp", ":"], ["files/读", "files/write"]),
        (["call", "b"], ["builtin:calculate"]),
        (["call", ""], ["builtin:calculate", "mcp:files/读", "mcp:files/write"]),
    ],
)
@pytest.mark.usefixtures("complete")
def test_bash_gets_what_it_replaces_behind_a_colon(
    words: list[str], answers: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {
        "_SKILLBUS_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(["skillbus", *words]),
        "COMP_CWORD": str(len(words)),
    }
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["skillbus"])
    with pytest.raises(SystemExit):
        complete_in_bash(create_app(), os.environ)
    assert capsys.readouterr().out.splitlines() == answers
