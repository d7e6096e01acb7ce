from pathlib import Path

import pytest

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.evaluation.cases import Case, load_cases

from .files import TOOLS, cases_of, lines_in

RAIN = {"query": "rain?", "relevant": ["rain"], "lang": "en"}


def only(folder: Path, request: object) -> Case:
    return cases_of(folder, [request]).cases[0]


def test_tools_are_read_as_the_catalogue_takes_them(tmp_path: Path) -> None:
    read = cases_of(tmp_path, [RAIN])
    assert [(tool.id, tool.name) for tool in read.tools][:2] == [("commit", "git-commit"), ("rain", "weather")]


def test_a_request_for_one_tool_wants_any_of_those_that_fit(tmp_path: Path) -> None:
    case = only(tmp_path, {"query": "weather", "relevant": ["rain", "forecast"], "kind": "single"})
    assert case.wants == (frozenset({"rain", "forecast"}),)


def test_a_request_for_several_tools_wants_each_of_them(tmp_path: Path) -> None:
    case = only(tmp_path, {"query": "rain and a song", "relevant": ["rain", "song"]})
    assert (case.kind, case.wants) == ("multi", (frozenset({"rain"}), frozenset({"song"})))


def test_tools_that_do_the_same_are_wanted_once(tmp_path: Path) -> None:
    request = {"query": "x", "relevant": ["rain", "song", "forecast"], "kind": "multi"}
    case = only(tmp_path, request | {"any_of": [["rain", "forecast"]]})
    assert set(case.wants) == {frozenset({"rain", "forecast"}), frozenset({"song"})}


def test_a_request_without_tools_wants_nothing(tmp_path: Path) -> None:
    case = only(tmp_path, {"query": "fly me to the moon", "relevant": []})
    assert (case.kind, case.wants, case.crosses_to) == ("no_match", (), None)


@pytest.mark.parametrize(
    ("request_", "crosses_to"),
    [
        ({"query": "会下雨吗", "relevant": ["rain"], "lang": "zh"}, "en"),
        ({"query": "会下雨吗", "relevant": ["rain", "song"], "lang": "zh"}, "en"),
        ({"query": "提交代码", "relevant": ["commit"], "lang": "zh"}, None),
        ({"query": "提交代码", "relevant": ["commit", "rain"], "lang": "zh"}, None),
        ({"query": "commit", "relevant": ["commit"], "lang": "en"}, "zh"),
    ],
)
def test_a_request_crosses_languages_if_no_tool_that_fits_has_its_own(
    tmp_path: Path, request_: dict[str, object], crosses_to: str | None
) -> None:
    assert only(tmp_path, request_).crosses_to == crosses_to


def test_a_language_that_no_line_says_is_seen_in_its_letters(tmp_path: Path) -> None:
    tools = [{"id": "a", "name": "weather", "description": "Will it rain?"}]
    case = cases_of(tmp_path, [{"query": "会下雨吗", "relevant": ["a"]}], tools).cases[0]
    assert (case.language, case.crosses_to) == ("zh", "other")


def test_a_sample_is_always_the_same_and_keeps_the_catalogue(tmp_path: Path) -> None:
    read = cases_of(tmp_path, [RAIN | {"query": f"rain {number}"} for number in range(50)])
    sample = read.sampled(10)
    assert (len(sample.cases), len(set(sample.cases)), sample.tools) == (10, 10, read.tools)
    assert sample == read.sampled(10)
    assert read.sampled(50) == read


@pytest.mark.parametrize(
    ("tools", "requests", "where"),
    [
        ([*TOOLS, "{not json"], [RAIN], ("tools.jsonl", 5)),
        ([*TOOLS, {"id": "x"}], [RAIN], ("tools.jsonl", 5)),
        ([*TOOLS, TOOLS[0]], [RAIN], ("tools.jsonl", 5)),
        ([*TOOLS, {"id": "x", "name": "x", "tool_type": "robot"}], [RAIN], ("tools.jsonl", 5)),
        ([*TOOLS, {"id": "x", "name": "x" * 201}], [RAIN], ("tools.jsonl", 5)),
        (TOOLS, [RAIN, "[]"], ("queries.jsonl", 2)),
        (TOOLS, [RAIN, {"query": " ", "relevant": []}], ("queries.jsonl", 2)),
        (TOOLS, [RAIN, {"query": "x" * 8_001, "relevant": []}], ("queries.jsonl", 2)),
        (TOOLS, [RAIN, {"query": "x", "relevant": ["nobody"]}], ("queries.jsonl", 2)),
        (TOOLS, [RAIN, {"query": "x", "relevant": ["rain"], "any_of": [["song"]]}], ("queries.jsonl", 2)),
        (TOOLS, [RAIN, {"query": "x", "relevant": ["rain"], "kind": "most"}], ("queries.jsonl", 2)),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, tools: list[object], requests: list[object], where: tuple[str, int]
) -> None:
    with pytest.raises(BadLineError) as refused:
        cases_of(tmp_path, requests, tools)
    assert (refused.value.path.name, refused.value.line) == where


def test_files_that_are_empty_or_missing_are_refused(tmp_path: Path) -> None:
    tools, empty = lines_in(tmp_path / "tools.jsonl", TOOLS), lines_in(tmp_path / "empty.jsonl", [""])
    for queries in (empty, tmp_path / "missing.jsonl"):
        with pytest.raises(UnreadableFileError):
            load_cases(tools, queries)
