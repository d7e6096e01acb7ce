"""Every page of the product, found by its links: whoever adds a page has it tested here.

All that the pages show is hostile: a payload that becomes markup opens a dialog, which fails the visit.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from fastapi import APIRouter
from fastapi.routing import APIRoute
from playwright.async_api import expect

from skillbus.gateway.service.pages.login import LoginPages
from skillbus.gateway.service.pages.rendering import SECTIONS
from skillbus.gateway.service.pages.router import add_pages, add_system_pages
from skillbus.gateway.service.pages.sections.administration import AdministrationPages
from skillbus.gateway.service.pages.sections.skills import SkillPages
from skillbus.gateway.service.pages.sections.start import StartPages
from skillbus.gateway.service.pages.sections.system import SystemPages

from ..e2e.conftest import System
from .browsing import NARROW, WIDE, Look, Visit, Visitors
from .hostile_data import EVIL, add_hostile_data

pytestmark = pytest.mark.asyncio(loop_scope="module")

AXE: Final = Path(__file__).with_name("vendor") / "axe.min.js"
AUDIT: Final = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"], elementRef: false });
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
}"""
OPEN_ALL: Final = "for (const details of document.querySelectorAll('details')) details.open = true"
LOOKS: Final = (Look(WIDE, "light", "en-US"), Look(NARROW, "dark", "zh-CN"))
"""Widths, colours and languages in which a page is audited: each of them once, as an audit takes half a second."""
UNSEEN: Final = frozenset(
    {"/mcp-servers/{name}", "/system/dead-letters/{sequence}", "/knowledge/scope-match", "/knowledge/{id}/theirs"}
)
"""Patterns of pages whose data needs another program or a fault, and of parts that a script asks for."""
PARTS: Final = "/system/parts/"
"""Beginning of the paths of what a page loads into itself."""
WITH_ANSWERS: Final = (
    *(f"/search?kind={kind}&threshold=0&query={quote(EVIL)}" for kind in ("tools", "knowledge", "commands")),
    f"/search?kind=tools&compare=true&query={quote(EVIL)}",
    f"/context?query={quote(EVIL)}",
    f"/context/resolve?text={quote(EVIL)}",
    "/knowledge?text=nothing-has-these-words",
)
"""Addresses whose page shows more with a query."""


@dataclass(frozen=True, slots=True)
class Site:
    """Pages of a running skillbus, by their patterns."""

    routes: Sequence[APIRoute]
    paths: dict[str, str]
    """First address that was found of each pattern."""

    def list_addresses(self) -> list[str]:
        """Return the address of each page. What a page loads into itself is none."""
        return [path for path in (*self.paths.values(), *WITH_ANSWERS) if not path.startswith(PARTS)]


def list_page_routes() -> Sequence[APIRoute]:
    """Return the routes of all pages that a browser opens."""
    router = APIRouter()
    nothing = cast("Any", None)
    start, skills = StartPages(nothing, nothing), SkillPages(nothing, nothing, 0)
    add_pages(router, LoginPages(nothing, nothing, "/"), start, skills, nothing)
    add_system_pages(router, SystemPages(nothing, nothing, nothing, nothing), AdministrationPages(nothing, nothing))
    return [route for route in router.routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(system: System) -> Site:
    await add_hostile_data(system)
    found = Site(list_page_routes(), {})
    waiting = ["/login", *SECTIONS]
    async with httpx.AsyncClient(
        base_url=system.standalone.http_url, headers={**system.standalone.http_headers, "Accept": "text/html"}
    ) as client:
        while waiting:
            path = waiting.pop(0)
            bare = httpx.URL(path).path
            # As the router does, the first pattern that fits decides.
            pattern = next((route.path for route in found.routes if route.path_regex.match(bare)), None)
            if pattern is None or pattern in found.paths:
                continue
            answer = await client.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text[:300]}"
            found.paths[pattern] = path
            waiting += [html.unescape(link) for link in re.findall(r'(?:href|hx-get)="(/[^"]*)"', answer.text)]
    return found


async def test_every_page_of_the_product_is_found_by_links(site: Site) -> None:
    assert {route.path for route in site.routes} - set(site.paths) - UNSEEN == set()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("look", LOOKS, ids=["wide", "narrow"])
async def test_every_page_is_accessible_and_calm_and_fits_its_window(
    visitors: Visitors, site: Site, look: Look
) -> None:
    problems: list[str] = []
    async with visitors.open("/search", look) as visit:
        for path in site.list_addresses():
            await visit.open(path)
            assert visit.path == path, "it leads elsewhere, as to the login"
            problems += [f"{path}: {problem}" for problem in await audit(visit)]
    assert not problems, "\n".join(problems)


async def audit(visit: Visit) -> list[str]:
    """Return what axe finds by all its rules on the page that is open, unfolded, and by how much it is too wide."""
    await visit.page.evaluate(OPEN_ALL)
    await expect(visit.page.locator(".htmx-request")).to_have_count(0)
    overflow = await visit.page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    if not await visit.page.evaluate("'axe' in window"):
        await visit.page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = await visit.page.evaluate(AUDIT)
    return [f"{overflow} px wider than the window", *found] if overflow > 0 else found
