"""`skillbus eval tools` as far as it goes before a system is started; tests/integration/evaluation goes on."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app

from .files import TOOLS, lines_in

RAIN = {"query": "rain?", "relevant": ["rain"]}


def evaluate(folder: Path, *more: str, requests: list[object]) -> Result:
    tools, queries = lines_in(folder / "tools.jsonl", TOOLS), lines_in(folder / "queries.jsonl", requests)
    words = ["eval", "tools", "--corpus", str(tools), "--queries", str(queries), *more]
    return CliRunner().invoke(create_app(), words)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2"),
        ({"query": "x", "relevant": ["nobody"]}, "'nobody'"),
        ({"query": "x"}, "relevant"),
    ],
)
def test_a_bad_line_is_told_before_anything_starts(tmp_path: Path, line: object, said: str) -> None:
    result = evaluate(tmp_path, "--json", requests=[RAIN, line])
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (1, "local_file")
    assert "queries.jsonl, line 2" in error["detail"]
    assert said in error["detail"]


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    result = evaluate(tmp_path, "--json", requests=[""])
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "local_file")


@pytest.mark.parametrize("more", [("--limit-queries", "0"), ("--queries", "missing.jsonl")])
def test_wrong_usage_is_exit_2(tmp_path: Path, more: tuple[str, str]) -> None:
    assert evaluate(tmp_path, *more, requests=[RAIN]).exit_code == 2
