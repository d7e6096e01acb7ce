"""`skillbus knowledge`: what is there, its versions, and what people make of it."""

import io
import json

import httpx
import pytest
from rich.console import Console

from skillbus.cli.knowledge import view
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner.versions import KnowledgeDiffed

from .conftest import CommandLine
from .fake_knowledge import WHEN, FakeKnowledge, item_record, usage_record, written
from .fake_server import problem

ID = "01890000-0000-7000-8000-000000000000"
DIFFERENCE = {
    "id": ID,
    "from_version": 1,
    "to_version": 2,
    "changes": [
        {"field": "priority", "before": 5, "after": 9},
        {
            "field": "content",
            "before": "",
            "after": "",
            "spans": [
                {"kind": "same", "text": "x" * 500 + "缺少时返回 "},
                {"kind": "removed", "text": "400"},
                {"kind": "added", "text": "403\x1b[31m"},
                {"kind": "same", "text": "。"},
            ],
        },
    ],
}


@pytest.fixture
def base() -> FakeKnowledge:
    return FakeKnowledge(items={f"i-{number}": item_record(f"i-{number}") for number in range(5)})


def test_items_are_listed_page_after_page_up_to_the_limit(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 获取知识列表"""
    base.page_size = 2
    whole = skillbus("knowledge", "list", "--json", externals=base.externals())
    assert [item["id"] for item in json.loads(whole.stdout)["items"]] == [f"i-{number}" for number in range(5)]
    assert len(base.requests) == 3
    some = skillbus("knowledge", "list", "--limit", "3", externals=base.externals()).stdout
    assert "3 of 5 items" in some
    assert "i-3" not in some


def test_every_filter_of_a_list_reaches_the_server(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 组合条件筛选"""
    words = ["--type", "project_config", "--type", "business_rule", "--status", "pending", "--tag", "auth"]
    words += ["--all-tags", "a", "--all-tags", "b", "--scope", "", "--source", "import", "--owner", "qa"]
    assert (
        skillbus("knowledge", "list", *words, "--text", "头", "--project", "p", externals=base.externals()).exit_code
        == 0
    )
    asked = base.requests[0].url.params
    assert (asked.get_list("type"), asked.get_list("all_tags")) == (["project_config", "business_rule"], ["a", "b"])
    assert (asked["status"], asked["tags"], asked["scope"], asked["source"]) == ("pending", "auth", "", "import")
    assert (asked["owner"], asked["text"], asked["project"]) == ("qa", "头", "p")


def test_an_empty_base_says_how_it_is_filled(skillbus: CommandLine) -> None:
    assert "skillbus knowledge import" in skillbus("knowledge", "list", externals=FakeKnowledge().externals()).stdout


def test_an_item_is_shown_with_its_content_and_without_what_a_terminal_would_obey(
    skillbus: CommandLine, base: FakeKnowledge
) -> None:
    base.items["i-0"] = item_record("i-0", content="# 标题\n\x1b[31m<script>alert(1)</script>")
    shown = skillbus("knowledge", "show", "i-0", externals=base.externals()).stdout
    for said in ("直播接口需要 game-id", "auth, game-id", "# 标题\n", "<script>alert(1)</script>"):
        assert said in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("command", [("show",), ("review", "approve")])
def test_an_item_is_found_by_the_id_that_a_context_cites(
    skillbus: CommandLine, base: FakeKnowledge, command: tuple[str, ...]
) -> None:
    skillbus("knowledge", *command, "K-i-0", externals=base.externals())
    assert "K-i-0" not in f"{[request.url.path for request in base.requests]} {[r.content for r in base.requests]}"
    assert base.requests


def test_an_item_is_shown_as_markdown_as_the_server_writes_it(skillbus: CommandLine, base: FakeKnowledge) -> None:
    shown = skillbus("knowledge", "show", "i-0", "--markdown", "--version", "2", externals=base.externals())
    assert shown.stdout == "---\nid: i-0\n---\n\n缺少时返回 400。\n"
    assert base.requests[0].headers["Accept"] == "text/markdown"
    assert base.requests[0].url.params["version"] == "2"


def test_an_item_is_shown_as_it_was_at_a_time(skillbus: CommandLine, base: FakeKnowledge) -> None:
    assert skillbus("knowledge", "show", "i-0", "--as-of", WHEN, "--json", externals=base.externals()).exit_code == 0
    assert dict(base.requests[0].url.params) == {"as_of": WHEN}


@pytest.mark.parametrize(
    "words",
    [
        ["show", "i-0", "--version", "1", "--as-of", WHEN],
        ["show", "i-0", "--markdown", "--json"],
        ["show", "i-0", "--version", "0"],
        ["list", "--status", "gone"],
        ["review", "delete", "i-0"],
        ["review", "approve", "../x"],
        ["feedback", "i-0"],
        ["stats", "--limit", "1000"],
        ["project", "--parent", "a", "--no-parent"],
    ],
)
def test_what_cannot_be_is_wrong_usage_and_nobody_is_asked(
    skillbus: CommandLine, base: FakeKnowledge, words: list[str]
) -> None:
    assert skillbus("knowledge", *words, externals=base.externals()).exit_code == 2
    assert base.requests == []


def test_an_item_that_is_not_there_is_exit_code_1_with_advice(skillbus: CommandLine, base: FakeKnowledge) -> None:
    result = skillbus("knowledge", "show", "..", externals=base.externals())
    assert result.exit_code == 1
    assert "has no item '..'" in result.stderr
    assert "--project" in result.stderr


def test_archiving_says_why_who_and_at_which_version(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 删除知识条目"""
    base.answers["DELETE /i-0"] = httpx.Response(204)
    words = ["--reason", "接口没了", "--by", "林", "--expect", "3", "--project", "p"]
    result = skillbus("knowledge", "archive", "i-0", *words, externals=base.externals())
    assert (result.exit_code, result.stdout) == (0, "i-0: archived\n")
    asked = base.requests[0]
    assert dict(asked.url.params) == {"project": "p", "reason": "接口没了"}
    assert (asked.headers["If-Match"], asked.headers["Skillbus-Actor"]) == ('"3"', "林")
    document = json.loads(skillbus("knowledge", "archive", "i-0", "--json", externals=base.externals()).stdout)
    assert document == {"id": "i-0", "outcome": "archived"}


def test_an_item_that_somebody_changed_meanwhile_is_left_alone(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["DELETE /i-0"] = problem(ErrorCode.PRECONDITION_FAILED, "item 'i-0' is at version 4, not 3")
    result = skillbus("knowledge", "archive", "i-0", "--expect", "3", externals=base.externals())
    assert result.exit_code == 1
    for said in ("precondition_failed", "at version 4", "skillbus knowledge show ID"):
        assert said in result.stderr


def test_an_item_is_restored_from_the_archive_or_as_it_was(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["/i-0/restore"] = written("i-0", version=5)
    plainly = skillbus("knowledge", "restore", "i-0", externals=base.externals())
    assert (plainly.stdout, base.body()) == ("i-0: version 5, active\n", {})
    skillbus("knowledge", "restore", "i-0", "--version", "2", "--reason", "it was right", externals=base.externals())
    assert base.body() == {"version": 2, "reason": "it was right"}


def test_a_history_says_who_did_what_when_and_why(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 查看历史版本"""
    one = {"change": "updated", "at": WHEN, "by": "lin", "reason": "release 12"}
    pages = [{"version": number, **one, "item": item_record("i-0", version=number)} for number in (3, 2, 1)]
    base.answers["/i-0/history"] = {"id": "i-0", "versions": pages[:2], "total": 3, "next": 2}
    cut = skillbus("knowledge", "history", "i-0", "--limit", "2", externals=base.externals()).stdout
    for said in ("updated", "2026-01-01 00:00:00", "lin", "release 12", "2 of 3 versions"):
        assert said in cut
    assert dict(base.requests[-1].url.params) == {"limit": "2"}
    whole = json.loads(
        skillbus("knowledge", "history", "i-0", "--limit", "2", "--json", externals=base.externals()).stdout
    )
    assert whole["versions"][0]["item"]["content"] == "缺少时返回 400。"


def test_a_difference_is_told_by_marks_where_there_is_no_colour(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["/i-0/diff"] = DIFFERENCE
    shown = skillbus("knowledge", "diff", "i-0", "1", "2", externals=base.externals()).stdout
    assert dict(base.requests[0].url.params) == {"from": "1", "to": "2"}
    assert "  5 → 9\n" in shown
    assert "缺少时返回 [-400-]{+403�[31m+}。" in shown
    assert "x" * 100 not in shown


def test_a_difference_is_coloured_on_a_terminal() -> None:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=200, color_system="standard", no_color=False)
    terminal.print(view.render_diff(KnowledgeDiffed.model_validate(DIFFERENCE), coloured=True))
    assert "\x1b[9;31m400\x1b[0m" in stream.getvalue()
    assert "\x1b[32m403" in stream.getvalue()


def test_versions_that_do_not_differ_say_so(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["/i-0/diff"] = DIFFERENCE | {"changes": []}
    assert "do not differ" in skillbus("knowledge", "diff", "i-0", "1", "2", externals=base.externals()).stdout


def test_pending_items_are_reviewed_and_the_exit_code_says_whether_all_were(
    skillbus: CommandLine, base: FakeKnowledge
) -> None:
    """knowledge-base.md § 批量审核"""
    good = {"id": "i-0", "ok": True, "status": "active", "version": 2}
    bad = {"id": "i-1", "ok": False, "code": "conflict", "error": "it is archived; `list_knowledge` lists items"}
    base.answers["POST /review"] = {"results": [good], "succeeded": 1, "failed": 0}
    words = ["approve", "i-0", "i-0", "--reason", "checked", "--project", "p"]
    assert skillbus("knowledge", "review", *words, externals=base.externals()).exit_code == 0
    assert base.body() == {"ids": ["i-0"], "action": "approve", "reason": "checked", "project": "p"}
    base.answers["POST /review"] = {"results": [good, bad], "succeeded": 1, "failed": 1}
    result = skillbus("knowledge", "review", "reject", "i-0", "i-1", externals=base.externals())
    assert (result.exit_code, "it is archived; `skillbus knowledge list`" in result.stdout) == (1, True)
    assert "not reviewed: 1 of 2 items" in result.stderr
    whole = skillbus("knowledge", "review", "reject", "i-0", "i-1", "--json", externals=base.externals())
    assert (whole.exit_code, whole.stderr, json.loads(whole.stdout)["failed"]) == (1, "", 1)


@pytest.mark.parametrize("words", [("snooze",), ("approve", "--until", "2027-01-01T00:00:00Z")])
def test_the_end_of_a_snooze_is_asked_for_by_its_option(
    skillbus: CommandLine, base: FakeKnowledge, words: tuple[str, ...]
) -> None:
    result = skillbus("knowledge", "review", *words, "i-0", externals=base.externals())
    assert (result.exit_code, "Invalid value for --until: `snooze` needs it" in result.stderr) == (2, True)


def test_feedback_is_given_and_the_use_of_the_item_is_shown(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 收集使用反馈"""
    base.answers["/i-0/feedback"] = base.answers["/i-0/usage"] = usage_record("i-0")
    result = skillbus(
        "knowledge", "feedback", "i-0", "--unhelpful", "--query", "要哪些 header", externals=base.externals()
    )
    assert base.body() == {"helpful": False, "query": "要哪些 header"}
    used = skillbus("knowledge", "usage", "i-0", externals=base.externals())
    for shown in (result.stdout, used.stdout):
        assert "75% of 4 (95 %: 30% to 95%)" in shown
        assert "scene chat" in shown


def test_statistics_name_what_somebody_should_look_at(skillbus: CommandLine, base: FakeKnowledge) -> None:
    """knowledge-base.md § 记录使用情况"""
    numbers = {"project": "p", "total": 7, "by_status": {"active": 5, "pending": 2}, "by_type": {"business_rule": 5}}
    numbers |= {"unindexed": 1, "searches": 30, "contexts": 4, "never_used_count": 40}
    reports = {"never_used": [usage_record("i-9", rate=None)], "most_used": [usage_record("i-1")]}
    vain = {"unanswered": [{"query": "怎么退款", "count": 3, "last_at": WHEN}]}
    base.answers["/stats"] = numbers | reports | vain
    shown = skillbus("knowledge", "stats", "--stale-after", "30", "--limit", "5", externals=base.externals()).stdout
    assert dict(base.requests[0].url.params) == {"stale_after_days": "30", "limit": "5"}
    for said in (
        "active, business_rule",
        "never used (1 of 40)",
        "i-9",
        "most used",
        "queries without hits",
        "怎么退款",
    ):
        assert said in shown


def test_a_project_inherits_from_another_or_from_none(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.answers["/projects/team-a"] = {"project": "team-a", "parents": ["default"]}
    base.answers["GET /projects/default"] = {"project": "default"}
    above = skillbus("knowledge", "project", "--project", "team-a", "--parent", "default", externals=base.externals())
    assert (above.stdout, base.body()) == ("team-a finds its own items and those of default\n", {"parent": "default"})
    skillbus("knowledge", "project", "--project", "team-a", "--no-parent", externals=base.externals())
    assert base.body() == {"parent": None}
    assert "its own items only" in skillbus("knowledge", "project", externals=base.externals()).stdout
    assert [it.method for it in base.requests] == ["PUT", "PUT", "GET"]


def test_a_proposal_is_shown_with_its_evidence_and_the_item_that_it_would_change(
    skillbus: CommandLine, base: FakeKnowledge
) -> None:
    learned = {
        "kind": "config",
        "type": "project_config",
        "title": "pool size",
        "content": "The pool has 10 places.",
        "statement": {"subject": "pool", "predicate": "size", "value": "10"},
        "evidence": [{"file": "app.log", "line": 7, "quote": "pool=10\x1b[31m"}],
        "confidence": {"low": 0.5, "high": 0.9},
        "seen": 3,
        "addresses_assistant": True,
    }
    proposal = {
        "id": "i-0",
        "job": ID,
        "kind": "conflict",
        "reason": "apart from: -20, +10",
        "learned": learned,
        "first_seen": WHEN,
        "last_seen": WHEN,
    }
    waiting = {"item": item_record("i-0"), "proposal": proposal, "other": item_record("i-1", content="It has 20.")}
    base.answers["/i-0/proposal"] = waiting
    base.answers["/proposals"] = {"proposals": [waiting], "total": 1}
    shown = skillbus("knowledge", "proposal", "i-0", externals=base.externals()).stdout
    for said in ("conflict: apart from", "app.log:7", "pool=10", "It has 20.", "addresses the assistant", "3 times"):
        assert said in shown
    listed = skillbus("knowledge", "proposals", "--kind", "conflict", externals=base.externals()).stdout
    assert "(!) " in listed
    assert "1 proposal" in listed
    base.answers["/proposals"] = {"proposals": [], "total": 0}
    none = skillbus("knowledge", "proposals", "--kind", "conflict", externals=base.externals()).stdout
    assert "No such proposal waits." in none
    assert "Nothing waits" in skillbus("knowledge", "proposals", externals=base.externals()).stdout


def test_a_decision_carries_the_other_item_and_the_changes_of_the_reviewer(
    skillbus: CommandLine, base: FakeKnowledge
) -> None:
    good = {"id": "i-0", "ok": True, "status": "archived", "version": 2}
    base.answers["POST /review"] = {"results": [good], "succeeded": 1, "failed": 0}
    words = ["merge", "i-0", "--other", "i-1", "--content", "Both."]
    assert skillbus("knowledge", "review", *words, externals=base.externals()).exit_code == 0
    assert base.body() == {"ids": ["i-0"], "action": "merge", "other": "i-1", "changes": {"content": "Both."}}
