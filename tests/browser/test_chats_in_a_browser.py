"""Chats in a browser, with a scripted model behind a real HTTP server."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Response, Route, expect

from ..e2e.conftest import System
from ..scripted_answers import Answer, Call
from ..scripted_upstream import ScriptedUpstream, hang_after, play_in_order, serve_upstream
from .browsing import NARROW, Look, Visit, Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
CALCULATION = Call("builtin__calculate", {"expression": "17 * 23"})
PROGRAM = 'for n in (2, 3):\n    print((await call_tool("builtin:calculate", expression=f"{n} * 5"))["content"])'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream(visitors: Visitors) -> AsyncGenerator[ScriptedUpstream]:
    """A model that an administrator adds on the page, once it says that there is none."""
    async with serve_upstream(lambda _: Answer("Hello.")) as served:
        async with visitors.open("/chat") as visit:
            await expect(visit.by("question")).to_be_hidden()
            await visit.page.get_by_label("Address", exact=False).fill(f"{served.url}/v1")
            await visit.page.locator("[data-add-model] [name=provider]").fill("scripted")
            await visit.page.locator("[data-add-model] [name=model]").fill("small")
            await visit.page.locator("[data-add-model] [name=api_key]").fill("")
            await visit.page.get_by_role("button", name="Add and test it").click()
            await expect(visit.by("question")).to_be_visible()
        yield served


async def ask(visit: Visit, question: str) -> None:
    await visit.by("question").fill(question)
    await visit.by("question").press("Control+Enter")


async def test_a_turn_waits_for_the_approval_of_a_call_answers_and_is_there_after_a_reload(
    visitors: Visitors, system: System, upstream: ScriptedUpstream
) -> None:
    approval = "/api/tools/builtin:calculate/approval"
    assert (await system.http.post(approval, json={"required": True})).is_success
    upstream.script = play_in_order(Answer((), [CALCULATION]), Answer(f"It is **391**. {EVIL} [K-none v1]"))
    async with visitors.open("/chat", Look(NARROW, "dark", "zh-CN")) as visit:
        await ask(visit, "What is 17 * 23?")
        await visit.by("approve").click()
        for _ in ("now", "after a reload"):
            await expect(visit.by("answer").locator("strong")).to_have_text("391")
            await expect(visit.by("answer")).to_contain_text(EVIL)
            await expect(visit.by("call").locator("[data-result]")).to_have_text("391")
            await expect(visit.by("usage")).to_contain_text("small")
            await visit.page.reload()
    assert (await system.http.post(approval, json={"required": False})).is_success


async def test_the_calls_of_a_program_stand_below_it(visitors: Visitors, upstream: ScriptedUpstream) -> None:
    program = Call("builtin__run_code", {"language": "python", "code": PROGRAM})
    upstream.script = play_in_order(Answer((), [program]), Answer("Done."))
    async with visitors.open("/chat") as visit:
        await visit.by("use-programs").check()
        await ask(visit, "Two products, by a program.")
        await expect(visit.by("answer")).to_contain_text("Done.", timeout=20_000)
        inner = visit.by("call").first.get_by_role("listitem")
        await expect(inner).to_have_count(2)
        await expect(inner.first).to_contain_text("builtin:calculate")


async def test_a_cancelled_turn_says_so_and_can_be_tried_again(visitors: Visitors, upstream: ScriptedUpstream) -> None:
    upstream.script = lambda _: hang_after()
    async with visitors.open("/chat", refused=(409,)) as visit:  # what a turn that is cancelled before its text answers
        await ask(visit, "Are you there?")
        await visit.by("cancel").click()
        await expect(visit.by("failed")).to_have_text("Cancelled.")
        upstream.script = lambda _: Answer("I am.")
        await visit.by("again").click()
        await expect(visit.by("answer")).to_contain_text("I am.")


async def test_a_turn_that_is_cancelled_before_it_has_begun_is_cancelled_all_the_same(
    visitors: Visitors, upstream: ScriptedUpstream
) -> None:
    upstream.script = lambda _: hang_after()
    async with visitors.open("/chat", refused=(409,)) as visit:
        nothing_ended = asyncio.Event()

        async def hold_back(route: Route) -> None:
            await nothing_ended.wait()
            await route.continue_()

        async def note_answer(response: Response) -> None:
            if response.request.method == "DELETE" and not nothing_ended.is_set():
                assert not (await response.json())["ending"]
                nothing_ended.set()

        await visit.page.route("**/v1/chat/completions", hold_back)
        visit.page.on("response", note_answer)
        await ask(visit, "Are you there?")
        await visit.by("cancel").click()
        await expect(visit.by("failed")).to_have_text("Cancelled.")
        assert nothing_ended.is_set()
