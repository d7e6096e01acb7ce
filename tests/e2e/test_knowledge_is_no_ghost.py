"""While many write and search: no stale or archived item is ever shown, and a new one once the index has it."""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest

from .conftest import System

pytestmark = pytest.mark.asyncio(loop_scope="module")

_ROUNDS = 6
_WORDS = ("baklava", "cassette", "dirigible", "eucalyptus", "fandango", "gazpacho")


async def _check_shown(http: httpx.AsyncClient, word: str, *expected: str) -> None:
    """Nothing but `expected` is ever shown or packed, and all of it as soon as the index is not behind any more."""
    asked = {"query": f"the {word} rule", "threshold": 0, "project": "ghosts"}
    while True:
        found, context = await asyncio.gather(
            http.post("/api/knowledge/search", json={**asked, "top_k": 100}),
            http.post("/api/knowledge/context", json={**asked, "budget_tokens": 100_000}),
        )
        shown = {str(hit["item"]["content"]) for hit in found.json()["results"]}
        packed = {str(item["content"]) for item in context.json()["items"]}
        own = [{content for content in some if content.startswith(word)} for some in (shown, packed)]
        assert all(some <= set(expected) for some in own)
        if all(some == set(expected) for some in own):
            return
        assert found.json()["index_behind"] or context.json()["index_behind"]


async def _live(http: httpx.AsyncClient, word: str) -> None:
    draft = {"type": "business_rule", "title": f"The {word} rule", "content": f"{word} 0", "project": "ghosts"}
    made = await http.post("/api/knowledge", json=draft)
    await _check_shown(http, word, f"{word} 0")
    at, params = f"/api/knowledge/{made.json()['item']['id']}", {"project": "ghosts"}
    for number in range(1, _ROUNDS):
        assert (await http.put(at, params=params, json={"content": f"{word} {number}"})).status_code == 200
        await _check_shown(http, word, f"{word} {number}")
        assert (await http.delete(at, params=params)).status_code == 204
        await _check_shown(http, word)
        assert (await http.post(f"{at}/restore", params=params, json={})).status_code == 200
        await _check_shown(http, word, f"{word} {number}")
        now = datetime.now(UTC).isoformat()
        assert (await http.put(at, params=params, json={"valid_to": now})).status_code == 200
        await _check_shown(http, word)
        assert (await http.put(at, params=params, json={"valid_to": None})).status_code == 200


@pytest.mark.spec("knowledge-base.md § 更新知识条目")
@pytest.mark.spec("knowledge-base.md § 删除知识条目")
@pytest.mark.spec("knowledge-base.md § 更新知识")
@pytest.mark.spec("knowledge-base.md § 删除知识")
async def test_no_archived_or_stale_item_is_shown_after_the_reply_to_its_change(system: System) -> None:
    async with asyncio.TaskGroup() as callers:
        for word in _WORDS:
            callers.create_task(_live(system.http, word))
