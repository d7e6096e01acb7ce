"""`skillbus eval logs` on files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app


def evaluate(*words: str) -> Result:
    return CliRunner().invoke(create_app(), ["eval", "logs", *words])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    lines = [f"2031-01-01 10:00:0{second} INFO web: request {second} took {second} ms" for second in range(9)]
    lines[3] += "\n    at a.b.C(D.java:1)"
    (tmp_path / "Shop_2k.log").write_text("\n".join(lines) + "\n")
    rows = [f"{line},request <*> took <*>,E1" for line in range(1, 11)]
    (tmp_path / "Shop_2k.log_structured_corrected.csv").write_text("\n".join(["LineId,EventTemplate,EventId", *rows]))
    (tmp_path / "without_truth.log").write_text("x\n")
    return tmp_path


def test_each_log_with_its_truth_is_measured(logs: Path) -> None:
    result = evaluate(str(logs), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"sets": {"Shop": {"ga": 1.0, "fga": 1.0}}, "macro": {"ga": 1.0, "fga": 1.0}}
    assert "Shop" in evaluate(str(logs)).stdout


def test_a_row_without_its_line_is_told(logs: Path) -> None:
    truth = logs / "Shop_2k.log_structured_corrected.csv"
    truth.write_text(truth.read_text() + "\n99,x,E2")
    result = evaluate(str(logs), "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "local_file")
    assert "line 12" in json.loads(result.stdout)["error"]["detail"]


def test_a_folder_without_logs_is_told(tmp_path: Path) -> None:
    result = evaluate(str(tmp_path))
    assert (result.exit_code, "no *.log in it has a *_structured_corrected.csv beside it" in result.output) == (1, True)
