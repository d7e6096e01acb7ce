"""Review, tools, searches and the first visit as people use them in a browser."""

import asyncio
import io
import json
import os
import zipfile

import pytest
from playwright.async_api import FilePayload, Route, expect

from skillbus.common.archive import PackedFile, pack_files
from skillbus.common.testing import eventually

from ..e2e.conftest import EXAMPLES, System, skill_package
from .browsing import NARROW, Look, Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def suggest(system: System, *titles: str) -> None:
    for title in titles:
        body = {"title": title, "content": f"{title} is as an agent saw it."}
        answer = await system.http.post("/api/knowledge/suggest", json=body)
        assert answer.status_code in {200, 201}, answer.text


async def status_of(system: System, title: str) -> str:
    found = await system.http.get("/api/knowledge", params={"text": title, "status": ["active", "archived", "pending"]})
    (item,) = found.json()["items"]
    status: str = item["status"]
    return status


@pytest.mark.spec("knowledge-base.md § 待审核页面")
async def test_pending_items_show_their_source_and_are_decided_by_key_or_in_a_batch(
    visitors: Visitors, system: System
) -> None:
    await suggest(system, "Alpha", "Beta", "Gamma", "Delta")
    async with visitors.open("/review") as visit:
        await expect(visit.by("item")).to_have_count(4)
        await visit.page.get_by_role("link", name="Alpha").click()
        await expect(visit.by("source")).to_contain_text("Suggested")
        before = visit.page.url
        await visit.page.keyboard.press("a")
        await visit.page.wait_for_url(lambda url: url != before)
        await visit.open("/review")
        await expect(visit.by("item")).to_have_count(3)
        for title, button in (("Beta", "approve-selected"), ("Gamma", "reject-selected")):
            await visit.page.get_by_label(f"Select: {title}").press("Space")
            await visit.by(button).press("Enter")
            await expect(visit.page.locator("[data-result]")).to_contain_text("1 done, 0 failed")
        await expect(visit.by("item").get_by_role("link")).to_have_text(["Delta"])
    statuses = [await status_of(system, title) for title in ("Alpha", "Beta", "Gamma", "Delta")]
    assert statuses == ["active", "active", "archived", "pending"]


async def test_a_tool_is_found_and_tried_by_a_form_from_its_schema(visitors: Visitors) -> None:
    async with visitors.open("/tools", Look(NARROW, "dark", "zh-CN")) as visit:
        await visit.by("text").fill("calculate")
        await visit.by("text").press("Enter")
        await visit.by("tool").get_by_role("link", name="calculate").first.click()
        await visit.page.locator("[data-argument=expression]").fill("(1 + 2) * 7")
        await visit.page.locator("[data-argument=expression]").press("Enter")
        await expect(visit.by("output")).to_contain_text("21")


async def test_a_form_that_is_submitted_before_its_script_has_come_waits_for_it(visitors: Visitors) -> None:
    async with visitors.open("/tools?text=calculate") as visit:
        submitted = asyncio.Event()

        async def delay(route: Route) -> None:
            await submitted.wait()
            await route.continue_()

        await visit.page.route("**/tools*.js*", delay)
        await visit.by("tool").get_by_role("link", name="calculate").first.click()
        await visit.page.locator("[data-argument=expression]").fill("(1 + 2) * 7")
        await visit.page.locator("[data-argument=expression]").press("Enter")
        submitted.set()
        await expect(visit.by("output")).to_contain_text("21")
        assert "?" not in visit.path


async def test_chosen_tools_are_disabled_and_enabled_and_each_row_shows_its_state(visitors: Visitors) -> None:
    async with visitors.open("/tools?text=calculate") as visit:
        state = visit.by("tool").first.locator("[data-state]")
        for button, shown in (("disable-selected", "disabled"), ("enable-selected", "active")):
            await visit.by("tool").first.get_by_role("checkbox").check()
            await visit.by(button).click()
            await expect(state).to_have_text(shown)
            await expect(visit.by("result")).to_have_text("1 done, 0 failed.")


async def test_a_zip_is_installed_after_its_check_and_found_as_a_tool(visitors: Visitors) -> None:
    name, description = "paint-fence", "Paints the fence of a garden in blue."
    package = FilePayload(name="p.zip", mimeType="application/zip", buffer=skill_package(name, description))
    async with visitors.open("/skills", refused=(404,)) as visit:  # the page asks whether there is one of this name
        await visit.by("package").set_input_files(package)
        await expect(visit.by("report")).to_contain_text(description)
        await visit.by("install-now").click()
        await visit.wait_for_path(f"/skills/{name}")
        await visit.open("/search?query=paint+the+garden+fence")
        await expect(visit.page.get_by_role("main")).to_contain_text(name)


async def test_a_zip_without_a_skill_is_refused_with_its_finding_and_nothing_is_installed(
    visitors: Visitors, system: System
) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("stray/notes.txt", "no skill")
    package = FilePayload(name="stray.zip", mimeType="application/zip", buffer=stream.getvalue())
    async with visitors.open("/skills", Look(language="zh-CN")) as visit:
        await visit.by("package").set_input_files(package)
        await expect(visit.by("report-errors")).to_contain_text("技能包里没有 SKILL.md")
        await expect(visit.by("report-errors")).to_contain_text("(no_skill_md)")
        await expect(visit.by("install-now")).to_be_hidden()
    assert await system.trace_of("stray") == []


async def test_the_page_of_a_run_that_somebody_else_started_shows_its_output_and_its_end(
    visitors: Visitors, system: System
) -> None:
    head = "---\nname: linger\ndescription: Prints and lingers.\nmetadata:\n  skillbus-entry: main.py\n---\n"
    script = "import time\nwhile True:\n    print('<b>still</b> here', flush=True)\n    time.sleep(0.2)\n"
    files = [PackedFile("SKILL.md", head.encode()), PackedFile("main.py", script.encode())]
    assert (await system.install(pack_files(files))).status_code == 201
    run_id = os.urandom(16).hex()
    body = {"run_id": run_id, "timeout_s": 30}
    running = asyncio.create_task(system.http.post("/api/skills/linger/run?stream=1", json=body))
    await eventually(lambda: system.http.get(f"/api/runs/{run_id}"), lambda answer: answer.status_code == 200)
    async with visitors.open(f"/runs/{run_id}") as visit:
        await expect(visit.by("output")).to_contain_text("<b>still</b> here")
        assert (await system.http.delete(f"/api/runs/{run_id}")).json()["ending"]
        await expect(visit.by("state")).to_have_text("cancelled")
        await expect(visit.by("output")).to_contain_text("<b>still</b> here")
        await expect(visit.by("cancel")).to_have_count(0)
    await running


async def test_a_search_shows_its_reasons_and_a_context_its_tokens(visitors: Visitors, system: System) -> None:
    item = {"title": "Refunds", "content": "A refund takes two days."}
    assert (await system.http.post("/api/knowledge", json=item)).status_code == 201
    async with visitors.open("/search") as visit:
        await visit.by("query").fill("calculate a sum")
        await visit.by("query").press("Enter")
        await expect(visit.by("summary").first).to_be_visible()
        await expect(visit.page.get_by_role("main")).to_contain_text("calculate")
        await visit.open("/context")
        await visit.by("query").fill("How long does a refund take?")
        await visit.by("query").press("Enter")
        await expect(visit.by("included")).to_contain_text("Refunds")
        await expect(visit.by("tokens")).to_be_visible()


async def test_a_spoken_command_shows_its_devices(visitors: Visitors, system: System) -> None:
    home = EXAMPLES.parent / "home"
    for kind in ("devices", "commands"):
        lines = [json.loads(line) for line in (home / f"{kind}.jsonl").read_text("utf-8").splitlines()]
        where = {"home": "example"} if kind == "devices" else {}
        answer = await system.http.put(f"/api/{kind}", params=where, json=lines)
        assert answer.status_code == 200, answer.text
    async with visitors.open("/context/resolve?home=example&text=打开老伙计") as visit:
        await expect(visit.by("devices")).to_contain_text("老伙计")


async def test_a_reader_sees_no_button_that_changes_something(visitors: Visitors, system: System) -> None:
    await suggest(system, "Epsilon")
    made = await system.http.post("/api/keys", json={"label": "reader", "role": "reader", "projects": ["default"]})
    assert made.status_code == 201, made.text
    async with visitors.open("/knowledge", key=made.json()["key"]) as visit:
        await expect(visit.by("new-item")).to_have_count(0)
        await visit.by("nav-review").click()
        await expect(visit.page.get_by_role("link", name="Epsilon")).to_be_visible()
        await expect(visit.by("approve-selected")).to_have_count(0)
