"""A first visit, from an empty installation to an agent that may connect; NATS that is down; the page of the system."""

import json
import os
import re
import shlex
import signal

import httpx
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import expect

from skillbus.common.testing import eventually

from ..e2e.conftest import System
from .browsing import Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def find_tools(session: ClientSession, query: str) -> set[str]:
    """Return the ids of the tools that an agent finds."""
    await session.initialize()
    found = await session.call_tool("search_tools", {"query": query})
    assert found.structuredContent is not None, found.content
    return {tool["id"] for tool in found.structuredContent["tools"]}


async def test_an_empty_installation_leads_to_examples_knowledge_and_an_agent(visitors: Visitors) -> None:
    async with visitors.open("/") as visit:
        heading = visit.page.get_by_role("heading", level=1)
        await expect(heading).to_have_text("Welcome to skillbus")
        await expect(visit.page.get_by_text("0 of 3 done")).to_be_visible()
        await visit.by("install").click()
        await expect(visit.by("done-examples")).to_be_visible(timeout=20_000)
        await expect(heading).to_have_text("Overview")

        await visit.by("add-knowledge").click()
        await visit.by("title").fill("Gift cards")
        await visit.by("content").fill("A gift card expires after three years.")
        await visit.by("save").click()
        await expect(visit.by("content")).to_have_text("A gift card expires after three years.")
        await visit.page.get_by_role("link", name="skillbus", exact=True).click()
        await visit.page.get_by_text("2 of 3 done").click()
        await expect(visit.by("done-knowledge")).to_be_visible()

        await visit.by("label").fill("agent of the first day")
        await visit.by("make").click()
        await expect(visit.page.locator("[data-once]")).to_be_visible()
        command, address, desktop = await visit.by("lines").locator("[data-line]").all_inner_texts()
        by_address, by_command = (json.loads(line)["mcpServers"]["skillbus"] for line in (address, desktop))
        authorization = f"Authorization: {by_address['headers']['Authorization']}"
        assert shlex.split(command)[-3:] == [by_address["url"], "--header", authorization]
        async with (
            httpx.AsyncClient(headers=by_address["headers"], timeout=30, trust_env=False) as http,
            streamable_http_client(by_address["url"], http_client=http) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            assert "skill:word-count" in await find_tools(session, "count the words of a text")
            knowledge = await session.call_tool("search_knowledge", {"query": "When does a gift card expire?"})
            assert "three years" in knowledge.model_dump_json()
        async with (
            stdio_client(StdioServerParameters(**by_command)) as (read, write),
            ClientSession(read, write) as session,
        ):
            assert "skill:word-count" in await find_tools(session, "count the words of a text")

        await visit.page.reload()
        await expect(visit.by("first-steps")).to_have_count(0)
        await expect(visit.by("connect-agent")).to_be_visible()
        await expect(visit.by("knowledge")).to_have_text(re.compile(r"^\d+ items of knowledge$"))
        await visit.by("query").fill("When does a gift card expire?")
        await visit.page.get_by_label("Search for").select_option("knowledge")
        await visit.by("query").press("Enter")
        await expect(visit.by("hit").first).to_contain_text("Gift cards")
        await visit.by("nav-system").click()
        await visit.by("tab-keys").click()
        await expect(visit.by("key-row")).to_contain_text("agent of the first day")


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


async def test_a_switch_to_another_model_is_followed_from_its_start_to_its_end(
    visitors: Visitors, system: System
) -> None:
    """Somebody starts it in a terminal, and comes back to the page."""
    tools = [
        {"id": f"shop.{number}", "name": f"tool {number}", "description": f"Part {number}."} for number in range(150)
    ]
    assert (await system.http.put("/api/tools", json=tools)).is_success
    model = {"provider": "local", "name": "all-MiniLM-L6-v2"}
    assert (await system.http.post("/api/embedding/models", json=model)).status_code == 201
    async with visitors.open("/system") as visit:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url.removeprefix(visit.base)))
        row, bar = visit.by("index-tools"), visit.by("index-tools").locator("progress")
        await expect(row).to_contain_text("use-multilingual-v3")

        async def come_back() -> int:
            await visit.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            return await bar.count()

        assert (await system.http.patch(f"/api/embedding/models/{model['name']}", json={"is_default": True})).is_success
        await eventually(come_back, bool)
        shown = set[str]()
        while await bar.count():
            shown.add(await row.inner_text())
        await expect(row).to_contain_text(f"kept · {model['name']}")
        assert len(shown) >= 3
        # A part that was asked for before the end may arrive after it: it shows a switch, which is followed once more.
        assert asked.count("/api/indexes/events") in {1, 2}
