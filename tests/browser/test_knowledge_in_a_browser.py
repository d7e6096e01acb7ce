"""The knowledge base as people use it in a browser: list, editor, two people at one item, history."""

import re
from collections.abc import Mapping

import pytest
import pytest_asyncio
from playwright.async_api import expect

from ..e2e.conftest import Json, System
from .browsing import NARROW, Look, Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHINESE = Look(NARROW, "dark", "zh-CN")


async def add_item(system: System, **fields: object) -> Json:
    answer = await system.http.post("/api/knowledge", json=fields)
    assert answer.status_code == 201, answer.text
    item: Json = answer.json()["item"]
    return item


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(system: System) -> Mapping[str, Json]:
    """Sixty rules of orders, and one of payments that is found by its own words."""
    lines = [
        {"title": f"Rule {number}", "content": f"Orders of kind {number}.", "type": "business_rule", "tags": ["order"]}
        for number in range(60)
    ]
    answer = await system.http.post("/api/knowledge/import", json=lines)
    assert answer.status_code == 200, answer.text
    refunds = await add_item(system, title="Refunds", content="A refund takes **two** days.", tags=["payment"])
    return {"refunds": refunds}


@pytest.mark.spec("knowledge-base.md § 知识列表页面")
async def test_a_list_is_filtered_searched_and_paged_and_its_address_shows_others_the_same(
    visitors: Visitors, filled: Mapping[str, Json]
) -> None:
    async with visitors.open("/knowledge") as visit, visitors.open("/tools", CHINESE) as other:
        assert "token" not in visit.path
        await expect(visit.by("total")).to_have_text("61 items")
        await visit.by("next-page").click()
        await expect(visit.by("item")).to_have_count(61 - 50)
        await visit.by("nav-knowledge").click()
        await expect(visit.by("item")).to_have_count(50)
        await visit.page.wait_for_load_state()  # the scripts that follow a filter have run
        await visit.by("type").select_option("business_rule")
        await expect(visit.by("total")).to_have_text("60 items")
        await visit.by("type").select_option("")
        await visit.by("text").fill("refund")
        await expect(visit.by("total")).to_have_text("1 item")
        await visit.wait_for_path("/knowledge[?].*text=refund.*")
        await other.open(visit.path)
        await expect(other.by("item")).to_have_count(1)
        assert await other.page.locator("html").get_attribute("lang") == "zh"
        await other.page.get_by_role("link", name="Refunds").click()
        await other.wait_for_path(f"/knowledge/{filled['refunds']['id']}")
        await visit.page.go_back()
        await expect(visit.by("total")).to_have_text("61 items")


async def test_a_filter_by_status_and_tag_needs_no_mouse(visitors: Visitors, filled: Mapping[str, Json]) -> None:
    async with visitors.open("/knowledge") as visit:
        await visit.page.keyboard.press("Tab")
        await expect(visit.page.locator(".skip")).to_be_focused()
        await visit.page.keyboard.press("Enter")
        await visit.by("tag").focus()
        await visit.page.keyboard.type("payment")
        await visit.page.keyboard.press("Tab")
        await expect(visit.by("total")).to_have_text("1 item")
        await visit.by("item").get_by_role("link").focus()
        outline = "element => getComputedStyle(element).outlineStyle"
        assert await visit.page.locator(":focus-visible").evaluate(outline) == "solid"
        await visit.page.keyboard.press("Enter")
        await expect(visit.page.get_by_role("heading", level=1)).to_have_text("Refunds")


@pytest.mark.spec("knowledge-base.md § 知识编辑页面")
async def test_an_item_is_written_with_toolbar_and_preview_then_found_and_edited(visitors: Visitors) -> None:
    async with visitors.open("/knowledge") as visit:
        await visit.by("new-item").click()
        await visit.by("title").fill("Opening hours")
        await visit.by("type").fill("faq")
        await visit.by("tags").fill("shop, hours")
        await visit.by("content").fill("We open at nine.")
        await visit.by("content").press("Control+a")
        await visit.page.get_by_title("Bold").click()
        await expect(visit.by("preview").locator("strong")).to_have_text("We open at nine.")
        await visit.by("save").press("Enter")
        await expect(visit.by("content").locator("strong")).to_have_text("We open at nine.")
        await visit.by("edit").click()
        await visit.by("content").fill("## When\n\n- at ten")
        await expect(visit.by("preview").get_by_role("listitem")).to_have_text("at ten")
        await visit.by("save").click()
        await expect(visit.by("content").get_by_role("heading")).to_have_text("When")
        await visit.open("/knowledge?text=ten&type=faq&tags=hours")
        await expect(visit.by("item").get_by_role("link")).to_have_text("Opening hours")


async def test_two_people_edit_one_item_and_neither_text_is_lost(visitors: Visitors, system: System) -> None:
    item = await add_item(system, title="Shared", content="first")
    edit = f"/knowledge/{item['id']}/edit"
    async with visitors.open(edit) as one, visitors.open(edit, CHINESE, refused=(412,)) as other:
        await one.by("content").fill("text of one")
        await other.by("content").fill("text of the other")
        await one.by("save").click()
        await expect(one.by("content")).to_have_text("text of one")
        await other.by("save").click()
        await expect(other.page.locator("[data-error]")).to_be_visible()
        await expect(other.by("content")).to_have_value("text of the other")
        await other.page.reload()
        await expect(other.by("content")).to_have_value("text of the other")
        await other.by("save").click()
        await expect(other.by("content")).to_have_text("text of the other")
    history = (await system.http.get(f"/api/knowledge/{item['id']}/history")).json()
    assert [version["item"]["content"] for version in history["versions"]] == [
        "text of the other",
        "text of one",
        "first",
    ]


async def test_an_earlier_version_is_compared_and_comes_back(visitors: Visitors, system: System) -> None:
    item = await add_item(system, title="Timeout", content="The timeout is five seconds.")
    await system.http.put(f"/api/knowledge/{item['id']}", json={"content": "The timeout is nine seconds."})
    async with visitors.open(f"/knowledge/{item['id']}", dialogs=1) as visit:
        await visit.by("history").click()
        await expect(visit.by("diff").locator("del")).to_have_text(re.compile("five"))
        await expect(visit.by("diff").locator("ins")).to_have_text(re.compile("nine"))
        await visit.by("restore-1").press("Enter")
        await expect(visit.by("content")).to_have_text("The timeout is five seconds.")
        await visit.by("history").click()
        await expect(visit.by("versions").locator("> li")).to_have_count(3)


async def test_after_a_new_login_each_of_several_refused_requests_is_sent_again(visitors: Visitors) -> None:
    async with visitors.open("/knowledge", refused=(403,)) as visit:
        await visit.page.evaluate("callApi('DELETE', '/api/session', null)")
        tab = await visit.page.context.new_page()
        await tab.goto(f"{visit.base}{await visitors.make_link('/tools')}")
        preview = "callApi('POST', '/knowledge/preview', { content: 'x' }).then(({ status }) => status)"
        assert await visit.page.evaluate(f"Promise.all([{preview}, {preview}, {preview}])") == [200, 200, 200]


@pytest.mark.spec("knowledge-base.md § 知识编辑页面")
async def test_what_is_typed_after_the_login_has_ended_is_saved_after_the_next_one(
    visitors: Visitors, system: System
) -> None:
    item = await add_item(system, title="Long day", content="first")
    async with visitors.open(f"/knowledge/{item['id']}/edit", refused=(401, 403)) as visit:
        await visit.page.evaluate("callApi('DELETE', '/api/session', null)")
        await visit.by("content").fill("written after the end")
        await visit.by("save").click()
        await expect(visit.page.locator("[data-error]")).to_contain_text("the login has ended")
        await expect(visit.by("content")).to_have_value("written after the end")
        tab = await visit.page.context.new_page()
        await tab.goto(f"{visit.base}{await visitors.make_link('/tools')}")
        await visit.by("save").click()
        await expect(visit.by("content")).to_have_text("written after the end")


async def test_a_login_ends_for_good_with_logout(visitors: Visitors) -> None:
    async with visitors.open("/knowledge") as visit:
        await visit.by("logout").click()
        await expect(visit.by("login")).to_be_visible()
        await visit.open("/knowledge")
        await visit.wait_for_path("/login[?].*")
