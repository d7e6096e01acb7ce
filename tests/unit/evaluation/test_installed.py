"""What `skillbus eval installed` computes of the answers of a server."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from skillbus.calibration.errors import CalibrationError
from skillbus.cli.evaluate.installed_view import render_installed_report
from skillbus.evaluation.installed import (
    InstalledAnswers,
    InstalledKind,
    InstalledReport,
    build_installed_report,
    load_installed_cases,
)

from .files import lines_in


@pytest.fixture
def report(tmp_path: Path) -> InstalledReport:
    """One query answered in the second place, one in the first, below the threshold; one that should find nothing."""
    lines = [
        {"query": "提交", "relevant": ["skill:git-commit"]},
        {"query": "rain", "relevant": ["mcp:weather/rain"]},
        {"query": "zzz", "relevant": []},
    ]
    cases = load_installed_cases(InstalledKind.TOOLS, lines_in(tmp_path / "queries.jsonl", lines))
    nearest = [["builtin:echo", "skill:git-commit"], ["mcp:weather/rain"], ["builtin:echo"]]
    default = [[], [], ["builtin:echo"]]
    return build_installed_report(cases, InstalledAnswers(nearest, default, degraded=0, model="use"))


def test_measures_leave_out_queries_that_should_find_nothing(report: InstalledReport) -> None:
    means = {name: estimate.mean for name, estimate in report.figures.items()}
    assert means.pop("ndcg_at_10") == pytest.approx((1 + 0.6309) / 2, abs=1e-4)
    assert means == {"hit_at_1": 0.5, "recall_at_5": 1.0, "recall_at_10": 1.0, "mrr": 0.75}


def test_the_default_threshold_has_its_benefit_and_its_cost(report: InstalledReport) -> None:
    assert report.answered_with_nothing is not None
    assert report.hit_at_1_lost is not None
    assert (report.answered_with_nothing.mean, report.hit_at_1_lost.mean) == (0.0, 0.5)


def test_what_was_not_answered_as_expected_is_shown_on_request(report: InstalledReport) -> None:
    assert [(miss.query, miss.rank) for miss in report.misses] == [("提交", 2), ("zzz", None)]
    shown = []
    for with_failures in (False, True):
        stream = io.StringIO()
        console = Console(file=stream, width=120, color_system=None)
        console.print(render_installed_report(report, with_failures=with_failures))
        shown.append(stream.getvalue())
    assert "2 queries not answered as expected: --failures shows them." in shown[0]
    assert "skill:git-commit" not in shown[0]
    assert "builtin:echo, skill:git-commit" in shown[1]


@pytest.mark.parametrize("kind", list(InstalledKind))
def test_a_file_without_a_query_is_told(kind: InstalledKind, tmp_path: Path) -> None:
    with pytest.raises(CalibrationError):
        load_installed_cases(kind, lines_in(tmp_path / "queries.jsonl", [""]))


def test_a_file_of_blank_queries_of_knowledge_is_told(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="no query"):
        load_installed_cases(InstalledKind.KNOWLEDGE, lines_in(tmp_path / "queries.jsonl", [{"query": " "}]))
