"""A first visit, from an empty installation to an agent that may connect, and what is seen while NATS is down."""

import os
import signal

import httpx
import pytest
from playwright.async_api import expect

from skillbus.common.testing import eventually

from ..e2e.conftest import System
from .browsing import Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_empty_installation_leads_to_examples_knowledge_and_an_agent(
    visitors: Visitors, system: System
) -> None:
    async with visitors.open("/start") as visit:
        await expect(visit.by("first-steps")).to_be_visible()
        await visit.by("install").click()
        await expect(visit.by("done-examples")).to_be_visible(timeout=20_000)

        await visit.by("add-knowledge").click()
        await visit.by("title").fill("Refunds")
        await visit.by("content").fill("A refund takes two days.")
        await visit.by("save").click()
        await expect(visit.by("content")).to_have_text("A refund takes two days.")
        await visit.open("/start")
        await visit.page.get_by_text("2 of 3 done").click()
        await expect(visit.by("done-knowledge")).to_be_visible()

        await visit.by("make").click()
        await expect(visit.page.locator("[data-once]")).to_be_visible()
        lines = await visit.by("lines").inner_text()
        key = lines.partition("Bearer ")[2].partition('"')[0]
        async with httpx.AsyncClient(base_url=visit.base, headers={"Authorization": f"Bearer {key}"}) as agent:
            answer = await agent.post("/api/tools/search", json={"query": "calculate"})
        assert answer.status_code == 200
        assert answer.json()["results"]


@pytest.mark.spec("knowledge-base.md § 知识编辑页面")
async def test_what_is_typed_while_nats_is_down_is_kept_and_saved_when_it_is_back(
    visitors: Visitors, system: System
) -> None:
    body = {"type": "fact", "title": "Before", "content": "first"}
    item = (await system.http.post("/api/knowledge", json=body)).json()["item"]
    async with visitors.open(f"/knowledge/{item['id']}/edit", refused=(503, 504)) as visit:
        await visit.by("content").fill("written during the failure")
        pid = system.standalone.nats.pid
        assert pid is not None

        async def save() -> int:
            async with visit.page.expect_response(lambda answer: answer.request.method == "PUT") as answered:
                await visit.by("save").click()
            return (await answered.value).status

        os.kill(pid, signal.SIGKILL)
        while await save() != 200:
            await expect(visit.page.locator("[data-error]")).to_be_visible()
            await expect(visit.by("content")).to_have_value("written during the failure")
            await eventually(lambda: system.http.get("/readyz"), lambda answer: answer.status_code == 200)
        await expect(visit.by("content")).to_have_text("written during the failure")


async def test_index_and_records_are_compared_when_somebody_asks(visitors: Visitors) -> None:
    async with visitors.open("/system") as visit:
        await expect(visit.by("services")).to_be_visible()
        await expect(visit.by("agrees")).to_have_count(0)
        await visit.by("compare").click()
        await expect(visit.by("agrees")).to_have_text("Indexes, records and callable tools agree.")
