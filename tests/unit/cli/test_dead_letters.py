import json
from dataclasses import dataclass, field

import httpx
import pytest

from skillbus.cli.server.launcher import Externals
from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_server import Json, problem


def letter(sequence: int, **changed: object) -> Json:
    usual: Json = {
        "sequence": sequence,
        "stream": "SKILLBUS_EVT",
        "consumer": "learner-uses",
        "subject": "skillbus.evt.knowledge.used.default",
        "project": "default",
        "error": "RuntimeError: the disk is full",
        "stored_at": "2026-01-01T00:00:00Z",
        "size_bytes": 17,
    }
    return usual | changed


@dataclass
class FakeDeadLetters:
    """Dead letters by number, in pages of two."""

    letters: dict[int, Json] = field(default_factory=lambda: {number: letter(number) for number in (1, 3, 4)})
    requests: list[tuple[str, str]] = field(default_factory=list)

    def externals(self) -> Externals:
        return Externals(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, request.url.path))
        number, _, action = request.url.path.removeprefix("/api/dead-letters").removeprefix("/").partition("/")
        if not number:
            wanted = request.url.params
            later = [one for key, one in self.letters.items() if key > int(wanted.get("after", "0"))]
            page = later[: min(2, int(wanted["limit"]))]
            after = page[-1]["sequence"] if len(later) > len(page) else None
            return httpx.Response(200, json={"dead_letters": page, "total": len(self.letters), "next": after})
        if int(number) not in self.letters:
            return problem(ErrorCode.NOT_FOUND, f"There is no dead letter {number}.")
        if request.method == "GET":
            return httpx.Response(200, json=self.letters[int(number)] | {"body": '{"a": "\x1b[31m"}'})
        gone = self.letters.pop(int(number))
        subject = {"subject": gone["subject"]} if action else {}
        return httpx.Response(200, json={"sequence": gone["sequence"], **subject})


@pytest.fixture
def server() -> FakeDeadLetters:
    return FakeDeadLetters()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, server: FakeDeadLetters) -> CommandLine:
    monkeypatch.delenv("SKILLBUS_URL", raising=False)
    return CommandLine(server)  # type: ignore[arg-type]  # it only asks the externals


def test_they_are_listed_page_after_page_up_to_the_limit(run: CommandLine, server: FakeDeadLetters) -> None:
    listed = run("dead-letters", "list", "--json", externals=server.externals())
    assert [one["sequence"] for one in json.loads(listed.stdout)["dead_letters"]] == [1, 3, 4]
    shown = run("dead-letters", "list", "--limit", "2", externals=server.externals()).stdout
    assert "learner-uses" in shown
    assert "2 of 3" in shown


def test_none_is_said_in_words(run: CommandLine, server: FakeDeadLetters) -> None:
    server.letters.clear()
    assert "no dead letters" in run("dead-letters", "list", externals=server.externals()).stdout


def test_one_is_shown_with_its_event_and_without_its_escape_sequences(
    run: CommandLine, server: FakeDeadLetters
) -> None:
    shown = run("dead-letters", "show", "3", externals=server.externals()).stdout
    assert "the disk is full" in shown
    assert "\x1b" not in shown


def test_replaying_goes_on_after_a_failure_and_exits_with_1(run: CommandLine, server: FakeDeadLetters) -> None:
    result = run("dead-letters", "replay", "1", "2", "3", "--json", externals=server.externals())
    assert result.exit_code == 1
    assert [one["outcome"] for one in json.loads(result.stdout)["results"]] == ["replayed", "failed", "replayed"]
    assert list(server.letters) == [4]
    assert ("POST", "/api/dead-letters/1/replay") in server.requests


def test_dropping_asks_for_confirmation(run: CommandLine, server: FakeDeadLetters) -> None:
    assert run("dead-letters", "drop", "1", externals=server.externals()).exit_code == 2
    assert run("dead-letters", "drop", "1", "3", "--yes", externals=server.externals()).exit_code == 0
    assert list(server.letters) == [4]
