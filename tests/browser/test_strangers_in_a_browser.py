"""What strangers try in somebody else's browser: links that log in, and keys that stay behind."""

import pytest
from playwright.async_api import expect

from ..e2e.conftest import System
from .browsing import Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_login_link_in_a_text_asks_before_it_logs_in(visitors: Visitors, system: System) -> None:
    made = await system.http.post("/api/keys", json={"label": "stranger", "role": "editor", "projects": ["theirs"]})
    link = await visitors.make_link("/knowledge", made.json()["key"])
    body = {"type": "fact", "title": "A trap", "content": f"[Read more]({link})"}
    item = (await system.http.post("/api/knowledge", json=body)).json()["item"]
    async with visitors.open(f"/knowledge/{item['id']}") as visit:
        await visit.page.get_by_role("link", name="Read more").click()
        await expect(visit.by("confirm")).to_be_visible()
        caller = "fetch('/api/session').then((answer) => answer.json()).then((session) => session.name)"
        assert await visit.page.evaluate(caller) == "owner"
        await visit.by("confirm").click()
        await visit.wait_for_path("/knowledge")
        assert await visit.page.evaluate(caller) == made.json()["id"]


async def test_a_new_key_of_the_first_visit_leaves_with_its_page(visitors: Visitors) -> None:
    async with visitors.open("/start") as visit:
        await visit.by("first-steps").evaluate("(details) => { details.open = true; }")
        await visit.by("make").click()
        await expect(visit.page.locator("[data-once]")).to_be_visible()
        shown = await visit.by("lines").inner_text()
        assert "YOUR-KEY" not in shown
        await visit.page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
        left = await visit.page.content()
    assert shown.partition("Bearer ")[2].partition('"')[0] not in left
