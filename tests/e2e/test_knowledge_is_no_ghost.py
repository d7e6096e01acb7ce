"""From the reply on: what is new is found, what is gone is not, however many write and search at the same time."""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest

from .conftest import System

pytestmark = pytest.mark.asyncio(loop_scope="module")

_ROUNDS = 6
_WORDS = ("baklava", "cassette", "dirigible", "eucalyptus", "fandango", "gazpacho")


async def _seen(http: httpx.AsyncClient, word: str) -> set[str]:
    """What a search shows and what a context holds."""
    asked = {"query": f"the {word} rule", "threshold": 0, "project": "ghosts"}
    found, context = await asyncio.gather(
        http.post("/api/knowledge/search", json={**asked, "top_k": 100}),
        http.post("/api/knowledge/context", json={**asked, "budget_tokens": 100_000}),
    )
    shown = {str(hit["item"]["content"]) for hit in found.json()["results"]}
    packed = {str(item["content"]) for item in context.json()["items"]}
    own = {content for content in shown if content.startswith(word)}
    assert own == {content for content in packed if content.startswith(word)}
    return own


async def _lives(http: httpx.AsyncClient, word: str) -> None:
    draft = {"type": "business_rule", "title": f"The {word} rule", "content": f"{word} 0", "project": "ghosts"}
    made = await http.post("/api/knowledge", json=draft)
    assert await _seen(http, word) == {f"{word} 0"}
    at, params = f"/api/knowledge/{made.json()['item']['id']}", {"project": "ghosts"}
    for number in range(1, _ROUNDS):
        assert (await http.put(at, params=params, json={"content": f"{word} {number}"})).status_code == 200
        assert await _seen(http, word) == {f"{word} {number}"}
        assert (await http.delete(at, params=params)).status_code == 204
        assert await _seen(http, word) == set()
        assert (await http.post(f"{at}/restore", params=params, json={})).status_code == 200
        assert await _seen(http, word) == {f"{word} {number}"}
        now = datetime.now(UTC).isoformat()
        assert (await http.put(at, params=params, json={"valid_to": now})).status_code == 200
        assert await _seen(http, word) == set()
        assert (await http.put(at, params=params, json={"valid_to": None})).status_code == 200


@pytest.mark.spec("knowledge-base.md § 更新知识条目")
@pytest.mark.spec("knowledge-base.md § 删除知识条目")
@pytest.mark.spec("knowledge-base.md § 更新知识")
@pytest.mark.spec("knowledge-base.md § 删除知识")
async def test_nothing_that_is_gone_or_was_changed_is_shown_after_the_reply_came(system: System) -> None:
    async with asyncio.TaskGroup() as callers:
        for word in _WORDS:
            callers.create_task(_lives(system.http, word))
