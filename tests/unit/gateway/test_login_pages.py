"""Login by a link: used once, within its time, and to pages of this server only."""

import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from structlog.testing import capture_logs

from skillbus.contracts.gateway.api_keys import Role
from skillbus.gateway.domain.access.login_link import is_own_page

from .fakes import KEY, World

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
LINKS = "/api/session/links"


@asynccontextmanager
async def open_browser(world: World) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that asks for pages, sends cookies and no key."""
    transport = httpx.ASGITransport(world.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=HTML) as client:
        yield client


async def make_link(world: World, key: str = KEY, **body: str) -> str:
    async with world.client(key) as client:
        answer = await client.post(LINKS, json=body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    path: str = answer.json()["path"]
    return path


async def test_a_link_logs_in_once_and_leaves_no_token_in_the_address_or_the_log() -> None:
    world = World(key=KEY)
    with capture_logs() as logs:
        path = await make_link(world, next="/knowledge?text=a")
        async with open_browser(world) as browser, open_browser(world) as other:
            first, again = await browser.get(path), await other.get(path)
            who = (await browser.get("/api/session")).json()
    assert (first.status_code, first.headers["Location"]) == (303, "/knowledge?text=a")
    assert "HttpOnly" in first.headers["Set-Cookie"]
    assert who["name"] == "owner"
    assert again.status_code == 401
    assert "skillbus open" in again.text
    secret = path.partition("token=")[2].partition("&")[0].partition("_")[2]
    assert secret not in repr(logs)
    assert secret not in again.text


async def test_a_link_has_the_rights_of_the_key_that_made_it_and_ends_with_it() -> None:
    world = World(key=KEY)
    key = world.add_key(Role.READER, "mine")
    used, kept = await make_link(world, key), await make_link(world, key)
    async with open_browser(world) as browser, world.client() as owner:
        assert (await browser.get(used)).status_code == 303
        status = (await browser.get("/api/session")).json()
        await owner.delete(f"/api/keys/{status['name']}")
        ended = await browser.get(kept)
    assert (status["role"], status["projects"]) == ("reader", ["mine"])
    assert ended.status_code == 401


async def test_an_old_or_a_changed_link_is_refused() -> None:
    world = World(key=KEY)
    old, changed = await make_link(world), await make_link(world)
    for record in world.link_store.records.values():
        if record.id in old:
            past = datetime.now(UTC) - timedelta(seconds=1)
            world.link_store.records[record.id] = record.model_copy(update={"expires_at": past})
    async with open_browser(world) as browser:
        answers = [await browser.get(path) for path in (old, changed[:-1], f"{changed[:-2]}AA", "/login?token=x")]
    assert [answer.status_code for answer in answers] == [401] * 4
    assert not any("Set-Cookie" in answer.headers for answer in answers)


@pytest.mark.parametrize(
    "given",
    ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\nb", "/a b", "/login", ""],
)
async def test_a_login_never_leads_to_another_host(given: str) -> None:
    world = World(key=KEY)
    assert not is_own_page(given)
    async with world.client() as client:
        refused = await client.post(LINKS, json={"next": given})
    assert refused.status_code == 400
    path = await make_link(world)
    async with open_browser(world) as browser:
        answer = await browser.get(path, params={**dict([path.partition("?")[2].split("=")]), "next": given})
    assert answer.headers["Location"] == "/start"


async def test_a_server_without_a_key_needs_no_link() -> None:
    async with World().client() as client:
        answer = await client.post(LINKS, json={"next": "/knowledge"})
    assert answer.json()["path"] == "/knowledge"


async def test_who_opens_a_page_without_a_login_is_told_how_to_get_one_and_comes_back_to_it() -> None:
    async with open_browser(World(key=KEY)) as browser:
        sent = await browser.get("/knowledge?text=a")
        page = await browser.get(sent.headers["Location"])
        program = await browser.get("/knowledge", headers={"Accept": "application/json"})
        part = await browser.get("/knowledge", headers={"HX-Request": "true"})
    assert (sent.status_code, page.status_code) == (303, 200)
    assert "skillbus open" in page.text
    assert 'href="/knowledge?text=a"' in page.text
    assert (program.status_code, program.json()["code"]) == (401, "unauthorized")
    assert part.status_code == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
async def test_a_link_that_a_page_opens_logs_in_only_when_the_user_says_so(site: str) -> None:
    path = await make_link(world := World(key=KEY), next="/review")
    async with open_browser(world) as browser:
        asked = await browser.get(path, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})
        address = re.search('data-login="(/login[^"]*)" data-next="/review"', asked.text)
        assert asked.status_code == 200
        assert "Set-Cookie" not in asked.headers
        assert address is not None
        button = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
        said = await browser.get(html.unescape(address[1]), headers=button)
    assert (said.status_code, said.headers["Location"]) == (303, "/review")


async def test_a_session_makes_no_links_so_that_it_ends_with_its_logout() -> None:
    world = World(key=KEY)
    async with open_browser(world) as browser:
        await browser.get(await make_link(world))
        token = (await browser.get("/api/session")).json()["csrf_token"]
        refused = await browser.post(LINKS, json={}, headers={"X-CSRF-Token": token})
    assert refused.status_code == 400
    assert "Authorization" in refused.json()["detail"]


async def test_a_page_of_before_a_new_login_of_its_key_finds_the_token_that_saves_what_it_holds() -> None:
    world = World(key=KEY)
    async with open_browser(world) as browser:
        await browser.get(await make_link(world))
        page = re.search('data-csrf="([^"]+)" data-caller="([^"]+)"', (await browser.get("/search")).text)
        assert page is not None
        await browser.get(await make_link(world))
        session = (await browser.get("/api/session")).json()
        answers = [
            await browser.post("/knowledge/preview", json={"content": "x"}, headers={"X-CSRF-Token": token})
            for token in (page[1], session["csrf_token"])
        ]
        script = (await browser.get("/assets/skillbus.js")).text
    assert session["name"] == page[2]
    assert [answer.status_code for answer in answers] == [403, 200]
    assert "page.csrf = token" in script
