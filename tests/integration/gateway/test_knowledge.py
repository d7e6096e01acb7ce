"""The knowledge base over real sockets and a real bus."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from .conftest import Serve
from .fake_learner import PENDING, SEEDED, FakeLearner

ITEM = {
    "type": "business_rule",
    "title": "需要 game-id",
    "content": "必须带。",
    "scope": "/api/live/*",
    "tags": ["auth"],
}


@pytest.fixture
async def learner(serve: Serve) -> FakeLearner:
    learner = FakeLearner()
    await serve(*learner.routes())
    return learner


@pytest.mark.usefixtures("learner")
async def test_an_item_lives_from_its_creation_to_the_archive_and_back(http: httpx.AsyncClient) -> None:
    """knowledge-base.md § 创建知识, 更新知识, 删除知识, 记录变更历史."""
    made = await http.post("/api/knowledge", json=ITEM, headers={"Skillbus-Actor": "lin"})
    path = made.headers["Location"]
    assert (made.status_code, made.headers["ETag"]) == (201, '"1"')

    changed = await http.put(path, json={"content": "缺少时返回 403。"}, headers={"If-Match": made.headers["ETag"]})
    stale = await http.put(path, json={"content": "another"}, headers={"If-Match": made.headers["ETag"]})
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")

    gone = await http.delete(path, headers={"If-Match": '"2"'})
    listed = [it["id"] for it in (await http.get("/api/knowledge")).json()["items"]]
    assert (gone.status_code, path.rsplit("/", 1)[1] in listed) == (204, False)

    back = await http.post(f"{path}/restore", json={"version": 1})
    history = (await http.get(f"{path}/history")).json()
    assert (back.json()["item"]["content"], back.headers["ETag"]) == ("必须带。", '"4"')
    assert [(it["version"], it["change"]) for it in history["versions"]] == [
        (4, "reverted"),
        (3, "archived"),
        (2, "updated"),
        (1, "created"),
    ]


@pytest.mark.usefixtures("learner")
async def test_an_item_of_another_project_is_not_there(http: httpx.AsyncClient) -> None:
    path, other = f"/api/knowledge/{SEEDED}", {"project": "team-a"}
    answers = [
        await http.get(path, params=other),
        await http.put(path, params=other, json={"title": "mine"}),
        await http.delete(path, params=other),
        await http.post(f"{path}/restore", params=other),
        await http.get(f"{path}/history", params=other),
        await http.get(f"{path}/diff", params={**other, "from": 1, "to": 2}),
        await http.post(f"{path}/feedback", params=other, json={"helpful": True}),
        await http.get(f"{path}/usage", params=other),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "not_found")] * 8


@pytest.mark.usefixtures("learner")
async def test_an_item_that_was_edited_as_markdown_is_a_new_version_of_itself(http: httpx.AsyncClient) -> None:
    lines = "".join(json.dumps(ITEM | {"id": f"doc-{at}"}, ensure_ascii=False) + "\n" for at in range(300))
    imported = await http.post("/api/knowledge/import", content=chunks(lines.encode()))
    item_id = imported.json()["results"][7]["id"]
    shown = await http.get(f"/api/knowledge/{item_id}", headers={"Accept": "text/markdown"})
    edited = shown.text.replace("必须带。", "必须带,否则 400。")
    again = await http.post("/api/knowledge/import", content=edited, headers={"Content-Type": "text/markdown"})
    now = (await http.get(f"/api/knowledge/{item_id}")).json()
    assert again.json()["counts"]["updated"] == 1
    assert (now["version"], now["content"], now["external_id"]) == (2, "必须带,否则 400。", "doc-7")


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 1_000):
        yield body[at : at + 1_000]


async def test_an_export_is_whole_or_breaks_off(http: httpx.AsyncClient, learner: FakeLearner) -> None:
    learner.page = 1
    path = "/api/knowledge/export?status=active&status=pending"
    whole = await http.get(path)
    assert [json.loads(line)["id"] for line in whole.text.splitlines()] == [SEEDED, PENDING]
    learner.breaks_after = SEEDED
    with pytest.raises(httpx.RemoteProtocolError):
        await http.get(path)
