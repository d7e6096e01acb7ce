import io
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from skillbus.cli.input_files import upload_lines
from skillbus.cli.output import CommandOutput
from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_server import problem
from .fake_tools import FakeTools, import_report

LINES = '{"id": "a", "name": "天气"}\n{"id": "b", "name": "b"}\n'
REJECTED = import_report(
    counts={"created": 1, "rejected": 1},
    results=[{"line": 2, "id": "b", "outcome": "rejected", "error": "description: too long"}],
)


@pytest.fixture
def tools() -> FakeTools:
    return FakeTools(answers={"PUT /api/tools": import_report()})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tools.jsonl"
    path.write_text(LINES, encoding="utf-8")
    return path


def test_a_file_is_sent_as_it_is_and_the_outcomes_are_a_table(
    skillbus: CommandLine, tools: FakeTools, file: Path
) -> None:
    words = ["--source", "mine", "--project", "team-a", "--review"]
    result = skillbus("tools", "import", str(file), *words, externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert tools.requests == [("PUT", "/api/tools", LINES.encode())]
    wishes = {"only": "problems", "first_line": "1", "source": "mine", "review_changes": "true", "project": "team-a"}
    assert dict(tools.queries[0]) == wishes
    assert ["created", "2"] in [line.split() for line in result.stdout.splitlines()]
    assert "rejected" not in result.stdout


def test_standard_input_can_be_imported(skillbus: CommandLine, tools: FakeTools) -> None:
    result = skillbus("tools", "import", "-", stdin=LINES, externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert tools.requests[0][2] == LINES.encode()


def test_a_rejected_line_is_shown_by_its_number_and_the_exit_code_says_so(
    skillbus: CommandLine, tools: FakeTools, file: Path
) -> None:
    tools.answers["PUT /api/tools"] = REJECTED
    result = skillbus("tools", "import", str(file), externals=tools.externals())
    assert result.exit_code == 1
    assert ["2", "b", "rejected", "description:", "too", "long"] in [it.split() for it in result.stdout.splitlines()]
    assert "1 of 2 were rejected" in result.stderr


def test_in_json_the_report_is_all_there_is(skillbus: CommandLine, tools: FakeTools, file: Path) -> None:
    tools.answers["PUT /api/tools"] = REJECTED
    result = skillbus("tools", "import", str(file), "--json", externals=tools.externals())
    assert (result.exit_code, result.stderr) == (1, "")
    assert json.loads(result.stdout)["results"][0]["line"] == 2


def many(lines: int) -> str:
    return "".join(f'{{"id": "t/{number}", "name": "{"x" * 80}"}}\n' for number in range(lines))


def test_a_large_file_goes_in_parts_that_end_with_a_line_and_are_counted_on(
    skillbus: CommandLine, tools: FakeTools, file: Path
) -> None:
    file.write_text(many(20_000))
    result = skillbus("tools", "import", str(file), externals=tools.externals())
    assert result.exit_code == 0, result.output
    bodies = [body for _, _, body in tools.requests]
    assert b"".join(bodies) == file.read_bytes()
    assert all(body.endswith(b"\n") for body in bodies)
    assert all(len(body) < 700_000 for body in bodies)
    ends = [body.count(b"\n") for body in bodies]
    assert [int(query["first_line"]) for query in tools.queries] == [1 + sum(ends[:at]) for at in range(len(bodies))]
    assert ["created", str(2 * len(bodies))] in [line.split() for line in result.stdout.splitlines()]


def test_an_array_goes_in_parts_of_lines_that_are_counted_on(
    skillbus: CommandLine, tools: FakeTools, file: Path
) -> None:
    lines = [json.dumps({"id": f"t/{number}", "name": "名"}, ensure_ascii=False) for number in range(250)]
    file.write_text("\ufeff[" + ",\n".join(lines) + "]", encoding="utf-8")
    assert skillbus("tools", "import", str(file), externals=tools.externals()).exit_code == 0
    bodies = [body.decode().splitlines() for _, _, body in tools.requests]
    assert [line for body in bodies for line in body] == lines
    assert len(bodies[0]) == 100
    assert [query["first_line"] for query in tools.queries][:2] == ["1", "101"]


@pytest.mark.parametrize("content", ["[" + '{"id": "a"}, ' * 20_000 + "{]", "[1, 2]", "[]", "x" * 2_000_000])
def test_what_is_not_an_array_of_objects_goes_as_it_is(
    skillbus: CommandLine, tools: FakeTools, file: Path, content: str
) -> None:
    file.write_text(content)
    assert skillbus("tools", "import", str(file), externals=tools.externals()).exit_code == 0
    assert [body for _, _, body in tools.requests] == [content.encode()]


def test_an_interrupted_import_tells_what_is_done(skillbus: CommandLine, tools: FakeTools, file: Path) -> None:
    file.write_text(many(20_000))
    answers = iter([httpx.Response(200, json=import_report())])

    def interrupted() -> httpx.Response:
        if len(tools.queries) > 1:
            signal.raise_signal(signal.SIGINT)
        return next(answers, problem(ErrorCode.UNAVAILABLE, "No indexer is running."))

    tools.answer_next = interrupted
    result = skillbus("tools", "import", str(file), externals=tools.externals())
    assert result.exit_code == 130
    assert f"Lines before {tools.queries[1]['first_line']} are imported" in result.stderr


def test_a_server_that_goes_away_in_the_middle_is_told_with_what_is_done(
    skillbus: CommandLine, tools: FakeTools, file: Path
) -> None:
    file.write_text(many(20_000))
    answers = iter([httpx.Response(200, json=import_report())])
    tools.answer_next = lambda: next(answers, problem(ErrorCode.UNAVAILABLE, "No indexer is running."))
    result = skillbus("tools", "import", str(file), externals=tools.externals())
    assert result.exit_code == 1
    assert f"Lines before {tools.queries[1]['first_line']} are imported" in result.stderr


def test_what_waits_to_be_indexed_is_told(skillbus: CommandLine, tools: FakeTools, file: Path) -> None:
    tools.answers["PUT /api/tools"] = import_report(indexed=False)
    assert "when the vector store" in skillbus("tools", "import", str(file), externals=tools.externals()).stdout


@pytest.mark.parametrize("kind", ["missing", "empty", "folder"])
def test_a_file_that_cannot_be_imported_is_named_and_nobody_is_asked(
    skillbus: CommandLine, tools: FakeTools, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / kind
    if kind == "empty":
        path.touch()
    if kind == "folder":
        path.mkdir()
    result = skillbus("tools", "import", str(path), externals=tools.externals())
    assert (result.exit_code, tools.requests) == (1, [])
    assert kind in result.stderr
    assert "Traceback" not in result.output


def test_a_file_of_something_else_fails_with_what_the_server_says(
    skillbus: CommandLine, tools: FakeTools, file: Path
) -> None:
    tools.answers["PUT /api/tools"] = problem(
        ErrorCode.INVALID_REQUEST, "The body is neither NDJSON …: line 1 is not JSON"
    )
    result = skillbus("tools", "import", str(file), externals=tools.externals())
    assert result.exit_code == 1
    assert "line 1 is not JSON" in result.stderr


def test_a_server_that_is_down_is_exit_code_3(skillbus: CommandLine, file: Path) -> None:
    result = skillbus("tools", "import", str(file), "--url", "http://127.0.0.1:9", externals=refusing().externals())
    assert result.exit_code == 3
    assert "skillbus up" in result.stderr


class refusing(FakeTools):  # noqa: N801 (reads as what it does)
    async def _answer(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")


@pytest.mark.parametrize("end", ["\n", ""])
async def test_on_a_terminal_a_bar_counts_items_and_shows_the_time_left(file: Path, end: str) -> None:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=80, color_system=None)
    file.write_text(many(250).rstrip("\n") + end)

    async def send(part: AsyncIterator[bytes], first_line: int) -> int:
        return sum([chunk.count(b"\n") async for chunk in part])

    parts = await upload_lines(CommandOutput(as_json=False, out=terminal, err=terminal), str(file), "", send)
    assert parts[0] == 100
    assert "250/250" in stream.getvalue()
    assert "0:00:00" in stream.getvalue()
