"""`skillbus knowledge add` and `update`."""

import json
from pathlib import Path

import pytest

from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_knowledge import FakeKnowledge, import_report, item_record, written
from .fake_server import problem

MARKDOWN = "---\ntype: business_rule\ntitle: game-id\n---\n\n缺少时返回 400。\n"


@pytest.fixture
def base() -> FakeKnowledge:
    answers = {"POST ": written("i-1"), "PUT /i-1": written("i-1", version=2), "POST /import": import_report()}
    return FakeKnowledge(items={"i-1": item_record("i-1")}, answers=dict(answers))


def test_an_item_is_added_from_options(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 手动创建知识条目"""
    words = ["--type", "business_rule", "--title", "game-id", "--content", "缺少时返回 400。", "--scope", "/api/live/*"]
    words += ["--tag", "auth", "--tag", "game-id", "--priority", "9", "--valid-from", "2026-01-01", "--pending"]
    words += ["--source", "wiki", "--external-id", "w-1", "--reason", "new", "--by", "lin", "--project", "p"]
    result = skillbus("knowledge", "add", *words, externals=base.externals())
    assert (result.exit_code, result.stdout) == (0, "i-1: version 1, active\n"), result.output
    assert base.body() == {
        "type": "business_rule",
        "title": "game-id",
        "content": "缺少时返回 400。",
        "scope": "/api/live/*",
        "tags": ["auth", "game-id"],
        "priority": 9,
        "valid_from": "2026-01-01T00:00:00Z",
        "status": "pending",
        "source": "wiki",
        "external_id": "w-1",
        "reason": "new",
        "project": "p",
    }
    assert base.requests[0].headers["Skillbus-Actor"] == "lin"


@pytest.mark.parametrize(("kind", "warned"), [("busness_rule", True), ("business_rule", False), ("runbook", False)])
def test_a_type_that_is_nearly_a_known_one_is_pointed_out(
    skillbus: CommandLine, base: FakeKnowledge, kind: str, warned: bool
) -> None:
    base.answers["POST "] = written("i-1", type=kind)
    words = ["--type", kind, "--title", "t", "--content", "c"]
    result = skillbus("knowledge", "add", *words, externals=base.externals())
    assert result.exit_code == 0
    assert ("Did you mean `business_rule`?" in result.stderr) is warned


def test_content_can_come_from_a_file_or_from_standard_input(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path
) -> None:
    (tmp_path / "c.md").write_text("# 一\n", encoding="utf-8")
    words = ["--type", "module_context", "--title", "t", "--content-from"]
    skillbus("knowledge", "add", *words, str(tmp_path / "c.md"), externals=base.externals())
    assert base.body()["content"] == "# 一\n"
    skillbus("knowledge", "add", *words, "-", stdin="二", externals=base.externals())
    assert base.body()["content"] == "二"


@pytest.mark.parametrize("by_stdin", [False, True])
def test_an_item_is_added_from_markdown_as_it_is(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path, by_stdin: bool
) -> None:
    path = tmp_path / "rule.md"
    path.write_text(MARKDOWN, encoding="utf-8")
    words = ["-" if by_stdin else str(path), "--source", "wiki", "--pending", "--json"]
    result = skillbus("knowledge", "add", *words, stdin=MARKDOWN, externals=base.externals())
    assert result.exit_code == 0, result.output
    assert base.asked() == ["POST /import", "GET /i-1"]
    sent = base.requests[0]
    assert (sent.content.decode(), sent.headers["Content-Type"]) == (MARKDOWN, "text/markdown")
    assert dict(sent.url.params) == {"source": "wiki", "status": "pending"}
    document = json.loads(result.stdout)
    assert (document["item"]["id"], document["indexed"], document["repeated"]) == ("i-1", True, False)


def test_markdown_that_is_no_item_is_exit_code_1_and_says_why(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path
) -> None:
    (tmp_path / "x.md").write_text(MARKDOWN)
    base.answers["POST /import"] = import_report(
        results=[{"line": 1, "outcome": "rejected", "error": "title: is blank"}]
    )
    result = skillbus("knowledge", "add", str(tmp_path / "x.md"), externals=base.externals())
    assert (result.exit_code, "title: is blank" in result.stderr) == (1, True)
    base.answers["POST /import"] = problem(ErrorCode.INVALID_REQUEST, "The front matter is missing")
    result = skillbus("knowledge", "add", str(tmp_path / "x.md"), externals=base.externals())
    assert (result.exit_code, "The front matter is missing" in result.stderr) == (1, True)
    assert skillbus("knowledge", "add", str(tmp_path / "gone.md"), externals=base.externals()).exit_code == 1


def test_an_item_that_waits_for_its_index_says_that_it_is_found_all_the_same(
    skillbus: CommandLine, base: FakeKnowledge
) -> None:
    base.answers["POST "] = written("i-1") | {"indexed": False}
    words = ["--type", "business_rule", "--title", "t", "--content", "c"]
    assert "not indexed yet" in skillbus("knowledge", "add", *words, externals=base.externals()).stdout


def test_only_what_is_named_is_changed(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 更新知识条目"""
    words = ["--content", "403", "--reason", "release 12", "--expect", "1", "--by", "lin"]
    result = skillbus("knowledge", "update", "i-1", *words, externals=base.externals())
    assert (result.exit_code, result.stdout) == (0, "i-1: version 2, active\n")
    assert base.body() == {"content": "403", "reason": "release 12"}
    assert (base.requests[0].method, base.requests[0].headers["If-Match"]) == ("PUT", '"1"')


def test_what_is_cleared_is_sent_as_null_or_empty(skillbus: CommandLine, base: FakeKnowledge) -> None:
    words = ["--clear", "valid-to", "--clear", "external-id", "--tag", "", "--owner", "", "--scope", ""]
    assert skillbus("knowledge", "update", "i-1", *words, externals=base.externals()).exit_code == 0
    assert base.body() == {"valid_to": None, "external_id": None, "tags": [], "owner": "", "scope": ""}


def test_an_update_that_changes_nothing_says_so(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["PUT /i-1"] = written("i-1") | {"repeated": True}
    result = skillbus("knowledge", "update", "i-1", "--title", "game-id", externals=base.externals())
    assert result.stdout == "i-1: version 1, unchanged\n"


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "--type", "business_rule", "--title", "t"],
        ["add", "rule.md", "--title", "t"],
        ["add", "--type", "My rule", "--title", "t", "--content", "c"],
        ["add", "--type", "business_rule", "--title", " ", "--content", "c"],
        ["add", "--type", "business_rule", "--title", "t" * 10_000, "--content", "c"],
        ["add", "--type", "business_rule", "--title", "t", "--content", "c", "--scope", "../*"],
        ["add", "--type", "business_rule", "--title", "t", "--content", "c", "--content-from", "-"],
        ["update", "i-1"],
        ["update", "i-1", "--reason", "none"],
        ["update", "i-1", "--valid-to", "2026-01-01", "--clear", "valid-to"],
        ["update", "i-1", "--clear", "title"],
        ["update", "i-1", "--priority", "11"],
        ["update", "i-1", "--valid-from", "yesterday"],
        ["update", "i-1", "--title", "t", "--expect", "0"],
    ],
)
def test_an_item_that_cannot_be_is_wrong_usage_and_nobody_is_asked(
    skillbus: CommandLine, base: FakeKnowledge, words: list[str]
) -> None:
    result = skillbus("knowledge", *words, externals=base.externals())
    assert (result.exit_code, base.requests) == (2, []), result.output


def test_a_thousand_tags_are_refused_before_anything_is_sent(skillbus: CommandLine, base: FakeKnowledge) -> None:
    tags = [word for number in range(1_000) for word in ("--tag", f"t{number}")]
    result = skillbus("knowledge", "update", "i-1", *tags, externals=base.externals())
    assert (result.exit_code, "--tag" in result.stderr, base.requests) == (2, True, [])
