"""The knowledge base from the command line, on a running skillbus: what the README says to type."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import JsonValue
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app
from skillbus.cli.demo.steps import BUDGET_TOKENS, KNOWLEDGE_QUERY, SCOPE
from skillbus.contracts.scope import ScopeMatch

from .conftest import ROOT, Json, System

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWLEDGE = ROOT / "examples" / "knowledge"
COUNT = len(list(KNOWLEDGE.iterdir()))
OF_AN_ITEM = ("type", "title", "content", "scope", "tags", "priority", "source", "source_ref", "owner", "lang")
OF_ITS_LIFE = ("valid_from", "valid_to", "external_id", "status")
ODD = "---\n# 标题\r\n\u2028`---`\n\n<script>alert(1)</script>  \n\n"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Runs the command in a thread of its own, as it runs a loop of its own."""

    system: System

    async def __call__(self, *words: str, code: int = 0, stdin: str | None = None) -> Result:
        address = {"SKILLBUS_URL": str(self.system.http.base_url), "SKILLBUS_DATA": str(self.system.data)}
        address["COLUMNS"] = "200"
        result = await asyncio.to_thread(CliRunner().invoke, create_app(), list(words), input=stdin, env=address)
        assert result.exit_code == code, result.output
        return result

    async def document(self, *words: str, code: int = 0) -> Json:
        """What the command says to programs."""
        document: Json = json.loads((await self(*words, "--json", code=code)).stdout)
        return document


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skillbus(system: System) -> AsyncGenerator[CommandLine]:
    command = CommandLine(system)
    # The server logs to the standard output of this process, which is the command's while it runs.
    with capture_logs():
        await command("knowledge", "import", str(KNOWLEDGE))
        yield command


def rows(document: Json, name: str) -> Sequence[Mapping[str, JsonValue]]:
    found = document[name]
    assert isinstance(found, list)
    return [row for row in found if isinstance(row, dict)]


def counted(report: Json) -> Json:
    """What became of items, as far as it became of any."""
    counts = report["counts"]
    assert isinstance(counts, dict)
    return {outcome: number for outcome, number in counts.items() if number}


def drafts(lines: Path) -> list[Json]:
    """The items of an export, without what another record cannot have alike."""
    items = [json.loads(line) for line in lines.read_text(encoding="utf-8").split("\n")[:-1]]
    return [{name: item[name] for name in (*OF_AN_ITEM, *OF_ITS_LIFE)} for item in items]


async def test_the_examples_are_imported_once_and_unchanged_after_that(skillbus: CommandLine) -> None:
    again = await skillbus.document("knowledge", "import", str(KNOWLEDGE))
    assert (again["total"], counted(again), again["indexed"]) == (COUNT, {"unchanged": COUNT}, True)


@pytest.mark.spec("knowledge-base.md § 语义检索相关知识")
@pytest.mark.spec("knowledge-base.md § 检索测试")
async def test_a_question_with_its_scope_is_answered_by_the_rule_first(skillbus: CommandLine) -> None:
    """knowledge-base.md § 语义检索相关知识, § 指定范围检索"""
    found = await skillbus.document("knowledge", "search", KNOWLEDGE_QUERY, "--scope", SCOPE, "--explain")
    hits = rows(found, "results")
    items = [hit["item"] for hit in hits]
    assert isinstance(items[0], dict)
    assert (items[0]["external_id"], hits[0]["scope_match"]) == ("game-id-header", "exact")
    levels = [level.value for level in ScopeMatch]
    order = [(levels.index(str(hit["scope_match"])), -float(str(hit["score"]))) for hit in hits]
    assert order == sorted(order)
    scopes = {item["scope"] for item in items if isinstance(item, dict)}
    assert not {scope for scope in scopes if scope and not str(scope).startswith("/api/live")}
    shown = await skillbus("knowledge", "search", KNOWLEDGE_QUERY, "--scope", SCOPE, "--top-k", "1")
    assert "直播电商接口必须携带 game-id" in shown.stdout


@pytest.mark.spec("knowledge-base.md § 构建测试生成上下文")
async def test_a_context_stays_within_its_budget_and_begins_with_what_matters_most(skillbus: CommandLine) -> None:
    """knowledge-base.md § 构建测试生成上下文, § 上下文格式化"""
    words = ["knowledge", "context", KNOWLEDGE_QUERY, "--scope", SCOPE, "--budget", str(BUDGET_TOKENS)]
    built = await skillbus.document(*words)
    items = rows(built, "items")
    assert isinstance(built["tokens"], int)
    assert 0 < built["tokens"] <= BUDGET_TOKENS
    assert items[0]["external_id"] == "game-id-header"
    printed = (await skillbus(*words)).stdout
    assert printed == f"{built['text']}\n"
    assert "business_rule" in printed


async def test_what_is_exported_and_imported_elsewhere_is_exactly_the_same(
    skillbus: CommandLine, tmp_path: Path
) -> None:
    odd = ["--type", "test_experience", "--title", "yes: no", "--scope", "module:x", "--tag", "- a", "--tag", "no"]
    times = ["--valid-from", "2020-01-01T08:00:00+08:00", "--valid-to", "2999-01-01", "--lang", "no"]
    words = [*odd, *times, "--content", ODD, "--external-id", "odd", "--project", "first"]
    await skillbus("knowledge", "add", *words)
    await skillbus("knowledge", "import", str(KNOWLEDGE), "--project", "first")
    await skillbus("knowledge", "export", str(tmp_path / "first.jsonl"), "--project", "first")
    await skillbus("knowledge", "export", f"{tmp_path}/kb/", "--project", "first")
    expected = drafts(tmp_path / "first.jsonl")
    assert len(expected) == COUNT + 1
    assert ODD in {item["content"] for item in expected}

    for project, source in (("lines", "first.jsonl"), ("files", "kb")):
        await skillbus("knowledge", "import", str(tmp_path / source), "--project", project)
        await skillbus("knowledge", "export", str(tmp_path / f"{project}.jsonl"), "--project", project)
        found = drafts(tmp_path / f"{project}.jsonl")
        assert sorted(found, key=str) == sorted(expected, key=str)
        again = await skillbus.document("knowledge", "import", str(tmp_path / source), "--project", project)
        assert counted(again) == {"unchanged": COUNT + 1}


@pytest.mark.spec("knowledge-base.md § 手动创建知识条目")
@pytest.mark.spec("knowledge-base.md § 查看历史版本")
async def test_the_life_of_an_item_from_its_file_to_the_archive_and_back(skillbus: CommandLine, tmp_path: Path) -> None:
    """knowledge-base.md § 手动创建知识条目, § 更新知识条目, § 记录变更历史, § 删除知识条目"""
    path = tmp_path / "rule.md"
    path.write_text("---\ntype: business_rule\ntitle: 主播连麦人数上限\n---\n\n连麦最多 8 人。\n", encoding="utf-8")
    added = await skillbus.document("knowledge", "add", str(path), "--by", "林")
    item = added["item"]
    assert isinstance(item, dict)
    item_id = str(item["id"])
    question = ["knowledge", "search", "一个直播间最多多少人连麦"]

    changed = ["--content", "连麦最多 12 人。", "--reason", "release 12"]
    await skillbus("knowledge", "update", item_id, *changed, "--expect", "1")
    stale = await skillbus("knowledge", "update", item_id, "--title", "x", "--expect", "1", code=1)
    assert "precondition_failed" in stale.output
    assert "连麦最多 [-8-]{+12+} 人。" in (await skillbus("knowledge", "diff", item_id, "1", "2")).stdout
    versions = rows(await skillbus.document("knowledge", "history", item_id), "versions")
    assert [(it["change"], it["by"], it["reason"]) for it in versions] == [
        ("updated", "http", "release 12"),
        ("created", "林", ""),
    ]
    assert "连麦最多 8 人" in (await skillbus("knowledge", "show", item_id, "--version", "1")).stdout
    assert item_id in (await skillbus(*question)).stdout

    await skillbus("knowledge", "archive", item_id)
    assert item_id not in (await skillbus(*question, "--threshold", "0", "--top-k", "100")).stdout
    await skillbus("knowledge", "restore", item_id, "--version", "1")
    restored = await skillbus("knowledge", "show", item_id, "--markdown")
    assert "连麦最多 8 人" in restored.stdout
    assert item_id in (await skillbus(*question)).stdout
    await skillbus("knowledge", "archive", item_id)


@pytest.mark.spec("knowledge-base.md § 审核待确认知识")
@pytest.mark.spec("knowledge-base.md § 拒绝无效知识")
@pytest.mark.spec("knowledge-base.md § 学习流程 3 pending, 4 人工确认")
async def test_what_waits_is_found_once_it_is_approved(skillbus: CommandLine) -> None:
    """knowledge-base.md § 审核待确认知识, § 拒绝无效知识"""
    ids = []
    for title in ("礼物连击的间隔是五秒", "礼物连击没有间隔"):
        words = ["--type", "test_experience", "--title", title, "--content", title, "--pending"]
        item = (await skillbus.document("knowledge", "add", *words))["item"]
        assert isinstance(item, dict)
        ids.append(str(item["id"]))
    question = ["knowledge", "search", "礼物连击的间隔", "--threshold", "0"]
    assert not {it for it in ids if it in (await skillbus(*question)).stdout}
    await skillbus("knowledge", "review", "approve", ids[0])
    await skillbus("knowledge", "review", "reject", ids[1], "--reason", "wrong")
    again = await skillbus("knowledge", "review", "approve", ids[1], code=1)
    assert "failed" in again.stdout
    assert [it in (await skillbus(*question)).stdout for it in ids] == [True, False]


@pytest.mark.spec("knowledge-base.md § 收集使用反馈")
async def test_feedback_usage_and_statistics_agree(skillbus: CommandLine) -> None:
    """knowledge-base.md § 收集使用反馈"""
    listed = rows(await skillbus.document("knowledge", "list", "--tag", "refund"), "items")
    item_id = str(listed[0]["id"])
    for verdict in ("--helpful", "--unhelpful"):
        await skillbus("knowledge", "feedback", item_id, verdict, "--query", "怎么退款", "--by", "lin")
    used = await skillbus.document("knowledge", "usage", item_id)
    assert (used["helpful"], used["unhelpful"]) == (0, 1)
    stats = await skillbus.document("knowledge", "stats")
    assert [it["id"] for it in rows(stats, "least_helpful")] == [item_id]


async def test_a_project_finds_what_is_above_it_and_only_while_it_is(skillbus: CommandLine) -> None:
    question = ["knowledge", "search", KNOWLEDGE_QUERY, "--scope", SCOPE, "--project", "team-a"]
    assert (await skillbus.document(*question))["results"] == []
    await skillbus("knowledge", "project", "--project", "team-a", "--parent", "default")
    assert "game-id" in (await skillbus(*question)).stdout
    await skillbus("knowledge", "project", "--project", "team-a", "--no-parent")
    assert (await skillbus.document(*question))["results"] == []


async def test_a_bad_line_is_told_by_its_number_and_the_others_are_taken(skillbus: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    good = {"id": "g", "type": "module_context", "title": "t", "content": "c", "scope": "x"}
    path.write_text("\n".join((json.dumps(good), "{", json.dumps(good | {"title": " "}))), encoding="utf-8")
    words = ["knowledge", "import", str(path), "--project", "bad-lines"]
    dry = await skillbus.document(*words, "--dry-run", code=1)
    report = await skillbus.document(*words, code=1)
    assert [it["line"] for it in rows(report, "results")] == [2, 3]
    assert counted(dry) == counted(report) == {"created": 1, "rejected": 2}


async def test_record_and_index_agree_after_all_this(skillbus: CommandLine) -> None:
    audit = await skillbus("audit")
    assert "knowledge items" in audit.stdout
    assert (await skillbus.document("status"))["ready"] is True
