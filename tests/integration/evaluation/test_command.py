"""`skillbus eval tools` and `eval agent` from beginning to end, on a catalogue of four tools."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app

TOOLS: list[dict[str, object]] = [
    {"id": "commit", "name": "git-commit", "description": "生成Git提交信息", "lang": "zh", "tool_type": "skill"},
    {"id": "rain", "name": "weather", "description": "Weather forecast of a city", "lang": "en", "tool_type": "mcp"},
    {"id": "excel", "name": "excel-analysis", "description": "分析Excel文件", "lang": "zh", "tool_type": "skill"},
    {"id": "song", "name": "play_music", "description": "Plays a song", "lang": "en", "tool_type": "builtin"},
]
REQUESTS: list[dict[str, object]] = [
    {"query": "分析Excel文件", "relevant": ["excel"], "lang": "zh"},
    {"query": "weather in Paris and a song", "relevant": ["rain", "song"], "lang": "en"},
    {"query": "zzz qqq", "relevant": [], "lang": "en"},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    named: dict[str, list[dict[str, object]]] = {"--corpus": TOOLS, "--queries": REQUESTS}
    words: list[str] = []
    for option, lines in named.items():
        path = tmp_path / f"{option.strip('-')}.jsonl"
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
        words += [option, str(path)]
    return tuple(words)


def evaluate(*words: str, what: str = "tools") -> Result:
    return CliRunner().invoke(create_app(), ["eval", what, *words])


def test_a_document_has_each_figure_beside_words_alone(files: tuple[str, ...]) -> None:
    result = evaluate(*files, "--limit-queries", "3", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["tools"], report["queries"], report["degraded"]) == (4, 3, 0)
    slices = {part["name"]: part["figures"] for part in report["slices"]}
    assert slices["zh"]["hit_at_1"]["search"]["mean"] == 1.0
    assert slices["en"]["set_recall"]["search"]["mean"] == 1.0
    assert report["abstention"]["no_match"] == 1


def test_the_tools_that_turns_are_shown_and_call_are_measured(files: tuple[str, ...]) -> None:
    result = evaluate(*files, "--json", what="agent")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["tools"], report["queries"]) == (4, 3)
    means = {measure: figure["search"]["mean"] for measure, figure in report["slices"][0]["figures"].items()}
    assert means == {"hit_at_10": 1.0, "recall_at_10": 1.0, "called": 1.0}


def test_a_model_that_is_not_there_is_told(files: tuple[str, ...]) -> None:
    result = evaluate(*files, "--model", "no-such-model", "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (1, "cannot_evaluate")
    assert "no-such-model" in error["detail"]
