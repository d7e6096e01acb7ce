"""What the gateway reads and writes of knowledge is understood by the learner itself, on SQLite."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

Item = dict[str, object]
DETAILS: tuple[Item, ...] = (
    {"type": "business_rule", "scope": "/api/live/*", "tags": ["auth", "1.10"], "valid_from": "2022-10-30"},
    {"type": "test_experience", "priority": 9, "lang": "no", "owner": "lin", "source": "log_learning"},
    {"type": "module_context", "external_id": "named: otherwise", "source_ref": "task-1\t2"},
)
ITEMS = tuple(
    details | {"id": f"doc-{number}", "title": f"标题 {number}: no", "content": f"---\n\n# 内容 {number}\n"}
    for number, details in enumerate(DETAILS)
)


@pytest.fixture(autouse=True)
async def learner(bus: Bus, tmp_path: Path) -> AsyncGenerator[None]:
    async with open_learner(bus, LearnerSettings(data=tmp_path, wait_indexed_s=0)):
        yield


async def import_items(
    http: httpx.AsyncClient, body: str, kind: str = "application/x-ndjson", **where: str
) -> dict[str, int]:
    headers = {"Content-Type": kind}
    answer = await http.post("/api/knowledge/import", content=body, headers=headers, params=where)
    assert answer.status_code == 200, answer.text
    return {outcome: count for outcome, count in answer.json()["counts"].items() if count}


def ndjson(items: tuple[Item, ...]) -> str:
    return "".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in items)


async def test_what_goes_out_as_ndjson_or_as_markdown_comes_back_unchanged(http: httpx.AsyncClient) -> None:
    assert await import_items(http, ndjson(ITEMS), dry_run="true") == {"created": 3}
    assert await import_items(http, ndjson(ITEMS)) == {"created": 3}
    exported = (await http.get("/api/knowledge/export")).text
    assert await import_items(http, exported) == {"unchanged": 3}
    for line in exported.splitlines():
        shown = await http.get(f"/api/knowledge/{json.loads(line)['id']}", headers={"Accept": "text/markdown"})
        assert await import_items(http, shown.text, "text/markdown") == {"unchanged": 1}


async def test_what_another_base_exported_is_the_same_there(http: httpx.AsyncClient) -> None:
    await import_items(http, ndjson(ITEMS))
    exported = (await http.get("/api/knowledge/export")).text
    assert await import_items(http, exported, project="team-a") == {"created": 3}
    there = (await http.get("/api/knowledge/export", params={"project": "team-a"})).text
    assert digests(there) == digests(exported)


def digests(exported: str) -> set[str]:
    return {json.loads(line)["digest"] for line in exported.splitlines()}


@pytest.mark.spec("knowledge-base.md § 创建知识")
async def test_a_change_of_an_old_version_is_refused_and_the_same_key_makes_one_item(http: httpx.AsyncClient) -> None:
    body = {"type": "business_rule", "title": "a", "content": "b"}
    first, again = [
        await http.post("/api/knowledge", json=body, headers={"Idempotency-Key": "k", "Skillbus-Actor": "lin"})
        for _ in range(2)
    ]
    path = first.headers["Location"]
    assert (again.status_code, again.headers["Location"], again.json()["repeated"]) == (201, path, True)
    await http.put(path, json={"content": "c"}, headers={"If-Match": first.headers["ETag"]})
    stale = await http.delete(path, headers={"If-Match": first.headers["ETag"]})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert (await http.get(path)).json()["updated_by"] == "http"
    both = await http.get(path, params={"version": "1", "as_of": "2026-01-01"})
    assert (both.status_code, both.json()["code"]) == (400, "invalid_request")


@pytest.mark.spec("knowledge-base.md § 按类型筛选知识")
@pytest.mark.spec("knowledge-base.md § 按标签筛选知识")
@pytest.mark.spec("knowledge-base.md § 组合条件筛选")
async def test_a_list_is_filtered_by_type_and_tags_over_http(http: httpx.AsyncClient) -> None:
    rows = (
        ("rule", "business_rule", ["auth"]),
        ("both", "business_rule", ["auth", "game-id"]),
        ("config", "project_config", ["auth"]),
        ("plain", "business_rule", []),
    )
    items: tuple[Item, ...] = tuple(
        {"id": title, "type": kind, "title": title, "content": "c", "tags": tags} for title, kind, tags in rows
    )
    await import_items(http, ndjson(items))

    async def titles(**where: str | list[str]) -> set[str]:
        answer = await http.get("/api/knowledge", params=where)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert page["total"] == len(page["items"])
        return {item["title"] for item in page["items"]}

    assert await titles(type="project_config") == {"config"}
    assert await titles(type=["project_config", "business_rule"]) == {"rule", "both", "config", "plain"}
    assert await titles(tags=["auth", "game-id"]) == {"rule", "both", "config"}
    assert await titles(all_tags=["auth", "game-id"]) == {"both"}
    assert await titles(type="business_rule", tags="auth") == {"rule", "both"}
    assert await titles(type="project_config", all_tags=["auth", "game-id"]) == set()
