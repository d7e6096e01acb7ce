"""`skillbus eval installed` on a running skillbus, for tools, knowledge and commands."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from typer.testing import CliRunner

from skillbus.cli.__main__ import create_app
from skillbus.common.testing import eventually

from .conftest import ROOT, System, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOME = ROOT / "examples" / "home" / "commands.jsonl"
FIRST = {"mean": 1.0, "low": 1.0, "high": 1.0}


async def run_command(system: System, *words: str) -> dict[str, Any]:
    """Run a command in a thread of its own, and return its document."""
    address = {"SKILLBUS_URL": str(system.http.base_url), "SKILLBUS_DATA": str(system.data)}
    result = await asyncio.to_thread(CliRunner().invoke, create_app(), [*words, "--json"], env=address)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


async def evaluate(system: System, folder: Path, kind: str, *lines: object) -> dict[str, Any]:
    path = folder / "queries.jsonl"
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8")
    return await run_command(system, "eval", "installed", kind, str(path), "--failures")


async def count_searches(system: System) -> int:
    return int((await system.http.get("/api/knowledge/stats")).json()["searches"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def item(system: System) -> AsyncGenerator[str]:
    """Id of the only item, beside which there are a skill, the commands of the example home and the builtin tools."""
    assert (await system.install(skill_package("git-commit", "生成Git提交信息"))).status_code == 201
    ndjson = {"Content-Type": "application/x-ndjson"}
    put = await system.http.put("/api/commands", content=HOME.read_bytes(), headers=ndjson)
    assert put.json()["counts"]["rejected"] == 0, put.text
    fields = {"type": "note", "title": "Refunds", "content": "The cashier approves refunds."}
    added = await system.http.post("/api/knowledge", json=fields)
    assert added.status_code == 201, added.text
    # The server logs to the standard output of this process, which is the command's while it runs.
    with capture_logs():
        yield added.json()["item"]["id"]


async def test_installed_tools_have_the_ids_that_the_page_of_searches_keeps(
    system: System, item: str, tmp_path: Path
) -> None:
    right = {"query": "帮我提交代码", "relevant": ["skill:git-commit"]}
    gone = {"query": "生成Git提交信息", "relevant": ["skill:removed"]}
    nothing = {"query": "zzz qqq", "relevant": []}
    report = await evaluate(system, tmp_path, "tools", right, gone, nothing)
    means = {name: value["mean"] for name, value in report["figures"].items()}
    assert means == dict.fromkeys(("hit_at_1", "recall_at_5", "recall_at_10", "ndcg_at_10", "mrr"), 0.5)
    assert (report["queries"], report["answered_with_nothing"]) == (3, FIRST)
    [missed] = report["failures"]
    assert (missed["query"], missed["right"], missed["rank"]) == ("生成Git提交信息", ["skill:removed"], None)
    assert missed["found"][0] == "skill:git-commit"


async def test_installed_knowledge_is_searched_without_counting_a_use(
    system: System, item: str, tmp_path: Path
) -> None:
    before = await count_searches(system)
    line = {"query": "who approves refunds?", "relevant": [{"id": item}]}
    report = await evaluate(system, tmp_path, "knowledge", line)
    assert report["figures"] == dict.fromkeys(("hit_at_1", "recall_at_5", "ndcg_at_10", "mrr_at_10"), FIRST)
    # Uses are counted in their order: when this search is, those of the evaluation would be.
    assert (await system.http.post("/api/knowledge/search", json={"query": "refunds"})).status_code == 200
    assert await eventually(lambda: count_searches(system), lambda count: count > before) == before + 1


async def test_installed_commands_are_right_by_their_capability(system: System, item: str, tmp_path: Path) -> None:
    line = {"query": "设置亮度", "expected_capability": ["switchLevel"]}
    wrong = {"query": "设置亮度", "expected_capability": ["nothing"]}
    report = await evaluate(system, tmp_path, "commands", line, wrong)
    assert {name: report["figures"][name]["mean"] for name in ("hit_at_1", "mrr")} == {"hit_at_1": 0.5, "mrr": 0.5}
    assert report["hit_at_1_lost"] is None
    [missed] = report["failures"]
    assert (missed["right"], missed["found"][0]) == (["nothing"], "switchLevel")
