import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.tool_text import (
    MAX_ARGUMENTS,
    build_tool_aside_text,
    build_tool_dense_text,
    build_tool_lexical_text,
)

PARAMETERS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"filePath": {"type": "string", "description": "where it is"}},
}


@pytest.mark.spec("tool-system.md § 3 向量化对象 (Skill 名称+描述)")
def test_the_dense_text_is_a_sentence_with_the_names_of_arguments_without_their_descriptions() -> None:
    text = build_tool_dense_text("excel-analysis", "读取Excel分析数据", ("表格", "data"), PARAMETERS)
    assert text == "excel-analysis. 读取Excel分析数据 表格 filePath"


def test_the_lexical_text_keeps_the_name_whole_and_leaves_descriptions_of_arguments_aside() -> None:
    text = build_tool_lexical_text("excel-analysis", "读取Excel分析数据", ("excel",), PARAMETERS)
    assert text == "excel-analysis 读取Excel分析数据 excel filePath"
    assert build_tool_aside_text("Acme Sheets", PARAMETERS) == "Acme Sheets where it is"


def test_the_lexical_encoder_finds_both_the_compound_name_and_its_parts() -> None:
    found = LexicalEncoder().encode_document(build_tool_lexical_text("git-commit", "生成Git提交信息"))
    assert {"gitcommit", "git", "commit", "提交"} <= set(found.terms)


def test_of_a_long_description_the_dense_text_takes_the_beginning_and_the_lexical_text_all() -> None:
    description = "Commits code. " + "More about it. " * 50 + "Rarely."
    assert build_tool_dense_text("n", description, ("tag",)).startswith("n. Commits code. More")
    assert build_tool_dense_text("n", description, ("tag",)).endswith("tag")
    assert len(build_tool_dense_text("n", description)) < 210
    assert build_tool_lexical_text("n", description).endswith("Rarely.")


def test_a_tool_without_a_description_is_its_name() -> None:
    assert build_tool_dense_text("git-commit", " ") == "git-commit."
    assert build_tool_lexical_text("git-commit", "") == "git-commit"


@pytest.mark.parametrize("parameters", [{}, {"properties": []}, {"properties": {"a": 1}}, {"properties": None}])
def test_a_schema_that_is_none_adds_at_most_the_names_of_arguments(parameters: dict[str, object]) -> None:
    assert build_tool_dense_text("n", "d", (), parameters) in {"n. d", "n. d a"}  # type: ignore[arg-type]  # a stranger's schema
    assert build_tool_lexical_text("n", "d", (), parameters) in {"n d", "n d a"}  # type: ignore[arg-type]  # a stranger's schema


def test_of_very_many_arguments_only_the_first_are_read() -> None:
    parameters: dict[str, JsonValue] = {"properties": {f"p{number}": {} for number in range(10_000)}}
    assert build_tool_lexical_text("n", "d", (), parameters).split()[-1] == f"p{MAX_ARGUMENTS - 1}"


@given(st.text(), st.text(max_size=20_000), st.lists(st.text(), max_size=5))
def test_any_text_gives_a_text_of_bounded_length(name: str, description: str, tags: list[str]) -> None:
    for text in (build_tool_dense_text(name, description, tags), build_tool_lexical_text(name, description, tags)):
        assert len(text) <= 8_192


def test_tags_of_another_script_than_the_description_are_left_to_the_lexical_side() -> None:
    chinese = ("git-commit", "生成Git提交信息", ("git", "提交"))
    assert build_tool_dense_text(*chinese) == "git-commit. 生成Git提交信息 提交"
    assert build_tool_lexical_text(*chinese) == "git-commit 生成Git提交信息 git 提交"
    assert build_tool_dense_text("git-commit", "Writes commit messages.", ("git", "提交")) == (
        "git-commit. Writes commit messages. git"
    )
