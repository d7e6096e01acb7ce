"""`skillbus call`."""

import json
from pathlib import Path

import httpx
import pytest

from .conftest import CommandLine
from .fake_server import Json
from .fake_tools import FakeTools, tool_record

CALCULATE = "builtin:calculate"
SCHEMA: Json = {
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "list": {"type": "array"},
        "maybe": {"type": ["string", "null"]},
    }
}


@pytest.fixture
def tools() -> FakeTools:
    tool = {"id": CALCULATE, "name": "calculate", "parameters": SCHEMA}
    return FakeTools(tools={CALCULATE: tool_record(CALCULATE, tool=tool)})


def called(text: str, **more: object) -> Json:
    part: Json = {"type": "text", "text": text}
    return {"id": CALCULATE, "run_id": "0" * 32, "content": [part], "duration_ms": 1.5} | more


def body_of(tools: FakeTools) -> Json:
    body = tools.body()
    assert len(str(body.pop("run_id"))) == 32
    return body


def test_a_call_prints_what_the_tool_says(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["call"] = called("9")
    words = ["call", CALCULATE, "--args", '{"expression": "(1+2)*3"}']
    result = skillbus(*words, externals=tools.externals())
    assert (result.exit_code, result.stdout) == (0, "9\n")
    assert body_of(tools) == {"arguments": {"expression": "(1+2)*3"}}
    tools.answers["call"] = called("no such sign", is_error=True)
    failed = skillbus(*words, externals=tools.externals())
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "no such sign" in failed.stderr


def test_words_become_arguments_of_the_types_that_the_schema_names(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["call"] = called("ok")
    words = ["text=12", "number=12", "list=[1,2]", "maybe=null", "other=true", "more=a=b", "empty="]
    assert skillbus("call", CALCULATE, *words, externals=tools.externals()).exit_code == 0
    assert body_of(tools)["arguments"] == {
        "text": "12",
        "number": 12,
        "list": [1, 2],
        "maybe": None,
        "other": True,
        "more": "a=b",
        "empty": "",
    }


def test_a_skill_gets_its_action_its_files_and_its_time(
    skillbus: CommandLine, tools: FakeTools, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("hi")
    tools.answers["call"] = called("drawn")
    words = ["call", "skill:plot", "size=3", "--action", "draw", "--file", str(tmp_path / "in.txt"), "--timeout", "9"]
    assert skillbus(*words, "--project", "p", externals=tools.externals()).exit_code == 0
    expected = {"arguments": {"size": 3}, "action": "draw", "files": {"in.txt": "aGk="}, "timeout_s": 9}
    assert body_of(tools) == expected
    assert tools.queries[-1]["project"] == "p"


def test_files_of_the_result_are_saved_and_links_to_others_are_not_followed(
    skillbus: CommandLine, tools: FakeTools, tmp_path: Path
) -> None:
    links: list[Json] = [
        {"type": "resource_link", "uri": "/api/runs/1/artifacts/plot.png", "name": "sub/plot.png"},
        {"type": "resource_link", "uri": "https://example.com/a", "name": "a"},
    ]
    tools.answers["call"] = called("", content=links)
    tools.answers["plot.png"] = httpx.Response(200, content=b"PNG")
    result = skillbus("call", CALCULATE, "--out", str(tmp_path), "--json", externals=tools.externals())
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["saved"], document["content"]) == ({"sub/plot.png": str(tmp_path / "plot.png")}, links)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"plot.png": b"PNG"}


def test_a_followed_skill_prints_its_output_as_it_comes_and_not_again(skillbus: CommandLine, tools: FakeTools) -> None:
    printed = {"number": 1, "stream": "stdout", "text": "half"}
    reply = called("half", is_error=True)
    reply["content"] = [{"type": "text", "text": text} for text in ("half", "failed with exit code 3\nTraceback")]
    events = f"event: output\ndata: {json.dumps(printed)}\n\nevent: reply\ndata: {json.dumps(reply)}\n\n"
    tools.answers["call"] = httpx.Response(200, text=events)
    result = skillbus("call", "skill:plot", "--stream", externals=tools.externals())
    assert (result.exit_code, result.stdout) == (1, "half")
    assert "failed with exit code 3" in result.stderr
    assert "Traceback" not in result.stderr
    assert tools.queries[-1]["stream"] == "true"


def test_a_followed_program_prints_its_output_and_then_its_value(skillbus: CommandLine, tools: FakeTools) -> None:
    printed = {"number": 1, "stream": "stdout", "text": "half\n"}
    reply = called("half") | {"id": "builtin:run_code", "structured": {"total": 3}}
    events = f"event: output\ndata: {json.dumps(printed)}\n\nevent: reply\ndata: {json.dumps(reply)}\n\n"
    tools.answers["call"] = httpx.Response(200, text=events)
    result = skillbus("call", "builtin:run_code", "--args", '{"code": "1"}', "--stream", externals=tools.externals())
    assert (result.exit_code, result.stdout) == (0, 'half\n{"total": 3}\n'), result.output


@pytest.mark.parametrize(
    "words",
    [
        ["--args", "[1]"],
        ["--args", '{"a": NaN}'],
        ["--args", '{"a": 1e999}'],
        ["--args", '{"a": "\\ud800"}'],
        ["--args", "{}", "a=1"],
        ["a"],
        ["=1"],
        ["a=1", "a=2"],
        ["--stream", "--json"],
    ],
)
def test_a_call_that_cannot_be_is_wrong_usage(skillbus: CommandLine, tools: FakeTools, words: list[str]) -> None:
    assert skillbus("call", CALCULATE, *words, externals=tools.externals()).exit_code == 2
    assert not tools.requests
