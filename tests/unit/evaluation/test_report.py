import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from skillbus.cli.evaluate.view import render_tool_report
from skillbus.evaluation.answers import rank_by_words
from skillbus.evaluation.cases import Cases
from skillbus.evaluation.measures import Measure
from skillbus.evaluation.report import Answers, Report, build_report

from .files import cases_of

REQUESTS = [
    {"query": "会下雨吗", "relevant": ["rain"], "lang": "zh", "kind": "single"},
    {"query": "提交代码", "relevant": ["commit"], "lang": "zh", "kind": "single"},
    {"query": "rain and song", "relevant": ["rain", "song"], "lang": "en", "kind": "multi"},
    {"query": "fly me", "relevant": [], "lang": "en", "kind": "no_match"},
]
NEAREST = (("rain",), ("song", "commit"), ("rain", "forecast"), ("song",))
DEFAULT = (("rain",), (), ("rain",), ())


@pytest.fixture
def cases(tmp_path: Path) -> Cases:
    return cases_of(tmp_path, REQUESTS)


@pytest.fixture
def report(cases: Cases) -> Report:
    return build_report(cases, Answers(NEAREST, DEFAULT, tuple(rank_by_words(cases)), 0, "a model", 1.0, 2.0))


def test_words_alone_find_what_shares_a_word_and_nothing_else(cases: Cases) -> None:
    crossing, same, several, nothing = rank_by_words(cases)
    assert (crossing, same, nothing) == ((), ("commit",), ())
    assert set(several) == {"rain", "song"}


def test_requests_are_told_apart_by_language_kind_both_and_whether_they_cross(report: Report) -> None:
    assert {part.name: part.queries for part in report.slices} == {
        "all": 3,
        "en": 1,
        "zh": 2,
        "multi": 1,
        "single": 2,
        "en, multi": 1,
        "zh, single": 2,
        "zh to en": 1,
    }


def test_people_get_a_table_in_which_slices_of_the_same_requests_stand_once(report: Report) -> None:
    stream = io.StringIO()
    Console(file=stream, width=200, color_system=None).print(render_tool_report(report))
    shown = stream.getvalue()
    first_cells = [line.split("  ")[0] for line in shown.splitlines()]
    assert [cell for cell in first_cells if cell.endswith(")")] == [
        "all (3)",
        "en = multi = en, multi (1)",
        "zh = single = zh, single (2)",
        "zh to en (1)",
    ]
    for words in ("recall@5", "BM25", "difference", "1 query without a fitting tool", "tools, imported", "4 queries"):
        assert words in shown


def test_each_figure_stands_beside_that_of_words_alone_and_their_difference(report: Report) -> None:
    crossing = next(part for part in report.slices if part.name == "zh to en").figures[Measure.RECALL_AT_5]
    assert (crossing.search.mean, crossing.bm25.mean, crossing.difference.mean) == (1.0, 0.0, 1.0)
    several = next(part for part in report.slices if part.name == "en").figures[Measure.RECALL_AT_5]
    assert (several.search.mean, several.bm25.mean, several.difference.mean) == (0.5, 1.0, -0.5)


def test_whole_sets_are_told_of_requests_for_several_tools_alone(report: Report) -> None:
    told = {part.name for part in report.slices if Measure.SET_RECALL in part.figures}
    assert told == {"all", "en", "multi", "en, multi"}


def test_the_threshold_is_told_by_what_it_keeps_back_and_what_it_costs(report: Report) -> None:
    found = report.abstention
    assert found.answered_with_nothing is not None
    assert found.recall_at_5_lost is not None
    assert (found.no_match, found.answered_with_nothing.mean) == (1, 1.0)
    assert found.recall_at_5_lost.mean == pytest.approx(1 / 3)


def test_without_requests_that_nothing_fits_nothing_is_said_of_them(cases: Cases) -> None:
    answerable = Cases(cases.tools, cases.cases[:3])
    bm25 = tuple(rank_by_words(answerable))
    found = build_report(answerable, Answers(NEAREST[:3], DEFAULT[:3], bm25, 0, None, 0, 0)).abstention
    assert (found.no_match, found.answered_with_nothing) == (0, None)


def test_of_requests_that_nothing_fits_alone_there_is_a_report_too(cases: Cases) -> None:
    nothing = Cases(cases.tools, cases.cases[3:])
    report = build_report(nothing, Answers(NEAREST[3:], DEFAULT[3:], ((),), 0, None, 0, 0))
    assert (report.slices, report.abstention.recall_at_5_lost) == ((), None)


def test_a_report_is_a_document(report: Report) -> None:
    written = json.loads(json.dumps(report.document()))
    assert written["slices"][0]["figures"]["recall_at_5"]["search"].keys() == {"mean", "low", "high"}


def test_words_of_examples_and_of_arguments_are_found_too(tmp_path: Path) -> None:
    argument = {"type": "object", "properties": {"city": {"description": "name of the municipality"}}}
    tools = [
        {"id": "a", "name": "x", "examples": ["shall I take an umbrella"]},
        {"id": "b", "name": "y", "parameters": argument},
    ]
    requests = [{"query": "umbrella", "relevant": ["a"]}, {"query": "municipality", "relevant": ["b"]}]
    assert list(rank_by_words(cases_of(tmp_path, requests, tools))) == [("a",), ("b",)]
