"""`skillbus knowledge search` and `context`."""

import io
import json

import pytest
from rich.console import Console

from skillbus.cli.knowledge.view import render_knowledge_hits
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.retriever.knowledge_search import KnowledgeFound

from .conftest import CommandLine
from .fake_knowledge import FakeKnowledge, built, found, found_item
from .fake_server import FakeServer, problem

QUESTION = "直播电商模块需要哪些header参数"


@pytest.fixture
def base() -> FakeKnowledge:
    return FakeKnowledge(answers={"POST /search": found(found_item("i-1")), "POST /context": built()})


def test_hits_are_a_table_with_type_scope_and_score(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 语义检索相关知识"""
    shown = skillbus("knowledge", "search", QUESTION, externals=base.externals())
    assert shown.exit_code == 0
    for cell in ("i-1", "business_rule", "0.98", "/api/live/*", "直播接口需要 game-id", "1 hit by use-multilingual"):
        assert cell in shown.stdout


def test_what_is_asked_reaches_the_server(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 指定范围检索"""
    words = [
        "--scope",
        "/api/live/*",
        "--type",
        "business_rule",
        "--tag",
        "auth",
        "--all-tags",
        "a",
        "--source",
        "wiki",
    ]
    words += ["--top-k", "3", "--threshold", "0.4", "--at", "2026-03-01", "--own", "--no-feedback", "--no-record"]
    words += ["--scene", "chat", "--explain", "--project", "p"]
    assert skillbus("knowledge", "search", QUESTION, *words, externals=base.externals()).exit_code == 0
    assert base.body() == {
        "query": QUESTION,
        "scope": "/api/live/*",
        "types": ["business_rule"],
        "tags": ["auth"],
        "all_tags": ["a"],
        "sources": ["wiki"],
        "top_k": 3,
        "threshold": 0.4,
        "at": "2026-03-01T00:00:00Z",
        "inherit": False,
        "feedback": False,
        "record_use": False,
        "scene": "chat",
        "explain": True,
        "project": "p",
    }


def test_what_is_not_said_is_left_to_the_server(skillbus: CommandLine, base: FakeKnowledge) -> None:
    skillbus("knowledge", "search", QUESTION, externals=base.externals())
    assert base.body() == {"query": QUESTION, "top_k": 5}


def test_an_explained_search_tells_what_moved_each_hit_and_what_each_stage_did(
    skillbus: CommandLine, base: FakeKnowledge
) -> None:
    """knowledge-base.md § 检索测试"""
    stages = [{"name": "filter", "took_ms": 1.2, "candidates": 6}, {"name": "rank", "took_ms": 0.1, "candidates": 5}]
    how = {
        "stages": stages,
        "threshold": 0.02,
        "below_threshold": 3,
        "not_shown": 1,
        "best_score": 0.98,
    }
    hit = found_item("i-1", relevance=0.51, factors={"scope": 3.0, "priority": -0.06}, indexed=False)
    base.answers["POST /search"] = found(hit, explanation=how | {"terms": ["header"], "projects": ["team", "default"]})
    shown = skillbus("knowledge", "search", QUESTION, "--explain", externals=base.externals()).stdout
    for said in ("scope: exact", "BM25 7.00: header in content", "relevance 0.51, scope +3.00, priority -0.06"):
        assert said in shown
    for said in (
        "ranked by an older version",
        "filter 1.2 ms (6 items)",
        "3 candidates below it",
        "1 not visible to you",
        "team, default",
    ):
        assert said in shown


def test_on_a_terminal_reasons_stand_below_the_hits_and_ids_are_never_folded() -> None:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=80, color_system=None)
    item_id = "01890000-0000-7000-8000-000000000000"
    answer = found(found_item(item_id, factors={"scope": 3.0}), found_item("i-2", scope_match=None))
    terminal.print(render_knowledge_hits(KnowledgeFound.model_validate(answer), width=80, explain=True))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert any(line.startswith(item_id) for line in lines)
    reasons = ["  scope: exact", "  cosine 0.440", "  lexical #1, BM25 7.00: header in content", "  scope +3.00"]
    begin = lines.index("直播接口需要 game-id")
    assert lines[begin + 1 : begin + 5] == reasons


def test_when_nothing_fits_it_says_how_to_see_what_is_nearest(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["POST /search"] = found()
    result = skillbus("knowledge", "search", QUESTION, externals=base.externals())
    assert (result.exit_code, "--threshold 0" in result.stdout) == (0, True)


def test_a_degraded_search_says_so(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 降级到TF-IDF"""
    base.answers["POST /search"] = found(found_item("i-1", cosine=None), degraded="lexical", model=None)
    assert "degraded: lexical only" in skillbus("knowledge", "search", QUESTION, externals=base.externals()).stdout


def test_a_context_is_its_text_and_nothing_else_on_standard_output(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 构建测试生成上下文"""
    result = skillbus("knowledge", "context", QUESTION, "--budget", "300", externals=base.externals())
    assert result.stdout == "## business_rule\n缺少 game-id 时返回 400。\n"
    said = "1 item, 42 of 300 tokens, counted by upper_bound; 2 do not fit the budget; 1 repeat another item"
    assert said in result.stderr
    assert base.body() == {"query": QUESTION, "budget_tokens": 300, "candidates": 50, "use": "chat"}


@pytest.mark.parametrize("words", [["--limit", "3"], ["--top-k", "3"], ["--top-k=3"]])
@pytest.mark.parametrize("command", [["search"], ["knowledge", "search"]])
def test_the_number_of_hits_has_two_spellings_in_both_searches(
    skillbus: CommandLine, server: FakeServer, base: FakeKnowledge, command: list[str], words: list[str]
) -> None:
    if command == ["search"]:
        skillbus(*command, "x", *words)
        assert server.body()["limit"] == 3
    else:
        skillbus(*command, "x", *words, externals=base.externals())
        assert base.body()["top_k"] == 3
    assert "--top-k" not in skillbus(*command, "--help").stdout


def test_a_context_has_a_template_and_a_tokenizer(skillbus: CommandLine, base: FakeKnowledge) -> None:
    words = ["--tokenizer", "qwen", "--use", "chat", "--scope", "module:x"]
    skillbus("knowledge", "context", QUESTION, *words, externals=base.externals())
    said = base.body()
    assert (said["tokenizer"], said["use"]) == ("qwen", "chat")
    assert said["scope"] == "module:x"


def test_a_search_says_how_many_items_are_not_indexed_yet(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["POST /search"] = found(found_item("i-1")) | {"index_behind": 7}
    shown = skillbus("knowledge", "search", QUESTION, externals=base.externals()).stdout
    assert "not indexed yet, and perhaps missing here: 7 items" in shown


def test_in_json_a_context_has_its_items_too(skillbus: CommandLine, base: FakeKnowledge) -> None:
    result = skillbus("knowledge", "context", QUESTION, "--json", externals=base.externals())
    assert (json.loads(result.stdout)["items"][0]["id"], result.stderr) == ("i-1", "")


def test_an_empty_context_prints_nothing_and_says_why(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["POST /context"] = built("", items=[], tokens=0)
    result = skillbus("knowledge", "context", QUESTION, "--budget", "1", externals=base.externals())
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 do not fit the budget" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["search", ""],
        ["search", QUESTION, "--top-k", "0"],
        ["search", QUESTION, "--threshold", "nan"],
        ["search", QUESTION, "--scope", "../*"],
        ["search", QUESTION, "--scene", "Not A Scene"],
        ["context", QUESTION, "--budget", "0"],
        ["context", QUESTION, "--budget", "1000000000"],
        ["context", QUESTION, "--tokenizer", "../x"],
    ],
)
def test_a_question_that_cannot_be_is_wrong_usage_and_nobody_is_asked(
    skillbus: CommandLine, base: FakeKnowledge, words: list[str]
) -> None:
    result = skillbus("knowledge", *words, externals=base.externals())
    assert (result.exit_code, base.requests) == (2, []), result.output


def test_a_learner_that_is_away_is_exit_code_1_with_advice(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["POST /search"] = problem(ErrorCode.UNAVAILABLE, "No learner is running.")
    result = skillbus("knowledge", "search", QUESTION, externals=base.externals())
    assert (result.exit_code, "No learner is running." in result.stderr) == (1, True)
