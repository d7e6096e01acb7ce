from pathlib import Path

import pytest

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.calibration.judged import load_judged

from .synthetic import write_lines

TOOL = {
    "id": "a",
    "name": "git-commit",
    "description": "生成提交信息",
    "tags": ["git"],
    "parameters": {"properties": {}},
}
OTHER = {"id": "b", "name": "weather", "provider": "a field that nobody reads"}
QUERY = {"query": "帮我提交代码", "relevant": ["a"]}


def files(folder: Path, tools: list[object], queries: list[object]) -> tuple[Path, Path]:
    return write_lines(folder / "tools.jsonl", tools), write_lines(folder / "queries.jsonl", queries)


def test_tools_and_queries_are_read_with_the_rows_of_what_fits(tmp_path: Path) -> None:
    read = load_judged(*files(tmp_path, [TOOL, OTHER], [QUERY, {"query": "rain and code", "relevant": ["a", "b"]}]))
    assert [tool.name for tool in read.tools] == ["git-commit", "weather"]
    assert read.relevant == (frozenset({0}), frozenset({0, 1}))
    assert read.for_one_tool.tolist() == [True, False]


def test_a_byte_order_mark_windows_line_ends_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    tools, queries = files(tmp_path, [TOOL], [QUERY])
    tools.write_bytes(b"\xef\xbb\xbf" + tools.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert len(load_judged(tools, queries).tools) == 1


def test_the_kind_that_is_given_counts_and_not_the_number_of_tools(tmp_path: Path) -> None:
    part, any_of = QUERY | {"kind": "multi"}, {"query": "x", "relevant": ["a", "b"], "kind": "single"}
    read = load_judged(*files(tmp_path, [TOOL, OTHER], [part, any_of, {"query": "sing", "relevant": []}]))
    assert read.for_one_tool.tolist() == [False, True, False]
    assert read.answerable.tolist() == [True, True, False]


@pytest.mark.parametrize(
    "bad",
    [
        "{not json",
        "[]",
        {"name": "no id"},
        {"id": "", "name": "x"},
        {"id": "x", "name": "   "},
        {"id": "x", "name": "x", "tags": "git"},
        {"id": "x", "name": "x", "parameters": []},
        '{"id": "x", "name": "\\ud800"}',
        TOOL,
    ],
)
def test_a_bad_line_of_tools_is_named_by_its_number(tmp_path: Path, bad: object) -> None:
    tools, queries = files(tmp_path, [TOOL, "", bad], [QUERY])
    with pytest.raises(BadLineError) as refused:
        load_judged(tools, queries)
    assert (refused.value.path, refused.value.line) == (tools, 3)


@pytest.mark.parametrize(
    "bad",
    [
        {"query": "no judgement"},
        {"query": "", "relevant": []},
        {"query": "x" * 32_769, "relevant": []},
        {"query": "x", "relevant": ["c"]},
        {"query": "x", "relevant": "a"},
        {"query": "x", "relevant": ["a"], "kind": "some"},
    ],
)
def test_a_bad_line_of_queries_is_named_by_its_number(tmp_path: Path, bad: object) -> None:
    tools, queries = files(tmp_path, [TOOL], [QUERY, bad])
    with pytest.raises(BadLineError) as refused:
        load_judged(tools, queries)
    assert (refused.value.path, refused.value.line) == (queries, 2)


def test_bytes_that_are_not_utf_8_are_named_by_their_line(tmp_path: Path) -> None:
    tools, queries = files(tmp_path, [TOOL], [QUERY])
    tools.write_bytes(tools.read_bytes() + '{"id": "x", "name": "提交"}'.encode("gbk"))
    with pytest.raises(BadLineError) as refused:
        load_judged(tools, queries)
    assert refused.value.line == 2


def test_a_file_that_is_missing_empty_or_a_folder_is_refused(tmp_path: Path) -> None:
    tools, queries = files(tmp_path, [TOOL], [QUERY])
    empty = write_lines(tmp_path / "empty.jsonl", [""])
    for one, other in ((tmp_path / "none", queries), (tools, empty), (tmp_path, queries)):
        with pytest.raises(UnreadableFileError):
            load_judged(one, other)
