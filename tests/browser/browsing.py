"""A person at a browser: logged in by a link, at a width, in colours and in a language.

What a page must never do fails the test at the end of the visit: ask another host for anything, break the content
security policy, write an error into the console, or open a dialog that nobody expected.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import httpx
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, Route

WIDE, NARROW = 1280, 390
Colours = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Look:
    """Width of the window in pixels, colours of the system, and language of the browser."""

    width: int = WIDE
    colours: Colours = "light"
    language: str = "en-US"


@dataclass  # without slots: Playwright sets attributes on the owner of a handler
class Visit:
    """A page in a browser of its own, and what happened in it."""

    base: str
    page: Page
    refused: tuple[int, ...]
    """Statuses of replies that the test brings about: the browser writes each into the console."""
    dialogs: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    async def open(self, path: str) -> None:
        """Open a page of skillbus."""
        answer = await self.page.goto(f"{self.base}{path}")
        assert answer is not None
        assert answer.status < 400, f"{path}: {answer.status}"

    def by(self, test_id: str) -> Locator:
        """Return what carries a test id."""
        return self.page.get_by_test_id(test_id)

    @property
    def path(self) -> str:
        """Address of the page, without the host."""
        return self.page.url.removeprefix(self.base)

    async def wait_for_path(self, pattern: str) -> None:
        """Wait until the whole address without the host fits a regular expression."""
        await self.page.wait_for_url(re.compile(f"^{re.escape(self.base)}{pattern}$"))

    def watch(self, context: BrowserContext) -> None:
        """Record what must not happen, and answer each dialog with yes."""
        self.page.on("console", self._note_message)
        self.page.on("dialog", self._answer_dialog)
        context.on("weberror", lambda error: self.faults.append(f"error in a script: {error.error}"))

    async def refuse_request(self, route: Route, request: Request) -> None:
        """Record and stop a request to another host."""
        self.faults.append(f"request to another host: {request.url}")
        await route.abort()

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        expected = any(f"status of {status} " in message.text for status in self.refused)
        if not expected:
            self.faults.append(f"console: {message.text}")

    async def _answer_dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        await dialog.accept()


@dataclass(frozen=True, slots=True)
class Visitors:
    """Opens browsers of people with a key."""

    browser: Browser
    base: str
    owner: dict[str, str]
    """Headers with the owner's key."""

    @asynccontextmanager
    async def open(
        self, path: str, look: Look = Look(), *, key: str | None = None, refused: tuple[int, ...] = (), dialogs: int = 0
    ) -> AsyncGenerator[Visit]:
        """Log in by a link that leads to a page. The number of dialogs is what the test expects to be asked."""
        link = await self.make_link(path, key)
        context = await self.browser.new_context(
            viewport={"width": look.width, "height": 900},
            color_scheme=look.colours,
            locale=look.language,
            reduced_motion="reduce",
        )
        try:
            page = await context.new_page()
            page.set_default_timeout(5_000)
            visit = Visit(self.base, page, refused)
            visit.watch(context)
            await context.route(re.compile(f"^(?!{re.escape(self.base)}/|data:|blob:)"), visit.refuse_request)
            await visit.open(link)
            yield visit
        finally:
            await context.close()
        assert not visit.faults, visit.faults
        assert len(visit.dialogs) == dialogs, visit.dialogs

    async def make_link(self, path: str, key: str | None = None) -> str:
        """Return the path that logs in and leads on to a page."""
        headers = self.owner if key is None else {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=self.base, headers=headers, trust_env=False) as client:
            answer = await client.post("/api/session/links", json={"next": path})
        assert answer.status_code == 201, answer.text
        path_of_link: str = answer.json()["path"]
        return path_of_link
