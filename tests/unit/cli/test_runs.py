import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from skillbus.cli.runs.view import render_runs
from skillbus.contracts.sandbox.run_history import RunRecord

from .conftest import CommandLine
from .fake_server import FakeServer, run_record

RUN = "0123456789abcdef" * 2


def test_runs_are_shown_with_what_they_used(skillbus: CommandLine, server: FakeServer) -> None:
    going_on = run_record("f" * 32, state="running", used=None, exit_code=None, isolation=None)
    server.history = [run_record(RUN), going_on]

    result = skillbus("runs", "list", "--skill", "greet", "--project", "acme")

    assert result.exit_code == 0, result.output
    first, second = (line.split() for line in result.stdout.splitlines() if line.startswith(("0123", "ffff")))
    assert first[:3] == [RUN, "greet", "ok"]
    assert first[5:] == ["123", "ms", "run", "46", "ms", "12.0", "MB", "5", "B", "0"]
    assert (second[2], second[5:]) == ("running", ["-", "run", *"----"])
    assert dict(server.requests[0].url.params) == {"limit": "20", "skill": "greet", "project": "acme"}


def test_on_80_columns_the_line_of_a_run_has_its_whole_id() -> None:
    run = RunRecord.model_validate(run_record(RUN, skill="quarterly-report-generator"))
    stream = io.StringIO()
    Console(file=stream, width=80, color_system=None).print(render_runs([run], width=80))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [RUN in line for line in lines].count(True) == 1
    assert any(line.split()[0] == RUN and "ok" in line and "123 ms" in line for line in lines)


def test_pages_are_read_until_there_are_enough(skillbus: CommandLine, server: FakeServer) -> None:
    server.history = [run_record(f"{number:032x}") for number in range(9)]
    server.page_size = 3

    document = json.loads(skillbus("runs", "list", "--limit", "7", "--json").stdout)

    assert [int(run["run_id"], 16) for run in document["runs"]] == list(range(7))
    assert len(server.requests) == 3


def test_runs_in_a_state_are_asked_for(skillbus: CommandLine, server: FakeServer) -> None:
    server.history = [run_record(RUN), run_record("f" * 32, state="timeout")]
    document = json.loads(skillbus("runs", "list", "--state", "timeout", "--json").stdout)
    assert [run["run_id"] for run in document["runs"]] == ["f" * 32]


def test_the_beginning_of_an_id_is_enough(skillbus: CommandLine, server: FakeServer) -> None:
    server.history = [run_record(RUN), run_record("f" * 32)]
    assert json.loads(skillbus("runs", "show", "0123", "--json").stdout)["run_id"] == RUN
    assert skillbus("runs", "cancel", "ffff").exit_code == 0
    assert server.requests[-1].url.path.endswith("f" * 32)


def test_a_beginning_of_several_ids_is_refused_with_the_ids(skillbus: CommandLine, server: FakeServer) -> None:
    server.history = [run_record("f" * 32), run_record("f" * 31 + "0")]
    result = skillbus("runs", "cancel", "ffff")
    assert result.exit_code == 2
    assert "2 ids begin with 'ffff'" in result.stderr
    assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.parametrize("beginning", ["eeee", "fff"])
def test_what_begins_no_id_or_is_too_short_goes_to_the_server_as_it_is(
    skillbus: CommandLine, server: FakeServer, beginning: str
) -> None:
    server.history = [run_record(RUN), run_record("f" * 32)]
    result = skillbus("runs", "show", beginning)
    assert result.exit_code == 1
    assert f"/api/runs/{beginning}" in [request.url.path for request in server.requests]


def test_a_run_is_shown_with_its_limits(skillbus: CommandLine, server: FakeServer) -> None:
    server.history = [run_record(RUN, state="failed", exit_code=3, artifacts=[{"name": "a.txt", "size_bytes": 3}])]

    result = skillbus("runs", "show", RUN)

    for said in ("failed, exit code 3", "123 ms", "60 s", "12.0 MB", "536.9 MB", "a.txt"):
        assert said in result.stdout
    assert json.loads(skillbus("runs", "show", RUN, "--json").stdout)["limits"]["processes"] == 64


def test_the_files_of_a_run_are_saved(skillbus: CommandLine, server: FakeServer, tmp_path: Path) -> None:
    names = ("a.txt", "deep/b c.txt", "gone.txt", "../evil")
    server.history = [run_record(RUN, artifacts=[{"name": name, "size_bytes": 3} for name in names])]
    server.files = {f"/api/runs/{RUN}/artifacts/{name}": name.encode() for name in names if name != "gone.txt"}

    result = skillbus("runs", "show", RUN, "--save", str(tmp_path / "out"))

    assert result.exit_code == 1
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {
        "a.txt": "a.txt",
        "b c.txt": "deep/b c.txt",
    }
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_a_run_is_ended(skillbus: CommandLine, server: FakeServer) -> None:
    assert "being ended" in skillbus("runs", "cancel", RUN).stdout
    assert (server.requests[0].method, server.requests[0].url.path) == ("DELETE", f"/api/runs/{RUN}")


def test_a_run_that_is_not_remembered_is_told(skillbus: CommandLine) -> None:
    result = skillbus("runs", "show", RUN)
    assert result.exit_code == 1
    assert "not_found" in result.stderr


_WRONG = [["cancel"], ["show", "--save", "out"], ["list", "--limit", "0"], ["list", "--skill", "No Name"], [RUN]]


@pytest.mark.parametrize("words", _WRONG)
def test_wrong_usage_exits_with_2_and_asks_nothing(skillbus: CommandLine, server: FakeServer, words: list[str]) -> None:
    assert skillbus("runs", *words).exit_code == 2
    assert server.requests == []


def test_no_runs_are_told_as_that(skillbus: CommandLine) -> None:
    assert "No run" in skillbus("runs", "list").stdout
