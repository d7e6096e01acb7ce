"""One skillbus and one browser for each module; a test opens pages as people with a login of their own."""

import os
import shutil
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from ..e2e.conftest import System, system
from .browsing import Visitors

__all__ = ["system"]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser. In CI no test is skipped because it is missing: `.ci/run` installs it."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    pytest.skip("Chromium is not there (Debian: apt-get install chromium)")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncGenerator[Browser]:
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has none for root
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, args=sandbox)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def visitors(browser: Browser, system: System) -> Visitors:
    return Visitors(browser, system.standalone.http_url, system.standalone.http_headers)
