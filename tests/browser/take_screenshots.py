"""Take a picture of every page with the examples in it: wide and light in English, narrow and dark in Chinese."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
from playwright.async_api import async_playwright

from skillbus.gateway.service.pages.rendering import SECTIONS
from skillbus.standalone.app import Standalone, StandaloneSettings, open_standalone

from .browsing import NARROW, Look, Visitors

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "build" / "screenshots"
EXAMPLES: Final = ROOT / "examples"
LOOKS: Final = {"light": Look(), "dark": Look(NARROW, "dark", "zh-CN")}
WITH_QUERY: Final = {
    "/search": f"/search?kind=knowledge&query={quote('how long does a refund take')}",
    "/context": f"/context?query={quote('how long does a refund take')}",
}


async def add_examples(http: httpx.AsyncClient) -> None:
    """Add the examples of the repository, and learn from their log."""
    for file in sorted((EXAMPLES / "knowledge").glob("*.md")):
        headers = {"Content-Type": "text/markdown"}
        answer = await http.post("/api/knowledge/import", content=file.read_bytes(), headers=headers)
        answer.raise_for_status()
    for kind in ("devices", "commands"):
        lines = [json.loads(line) for line in (EXAMPLES / "home" / f"{kind}.jsonl").read_text("utf-8").splitlines()]
        (await http.put(f"/api/{kind}", json=lines)).raise_for_status()
    suggestions = {
        "Refunds above 500 need a second approval": "An agent saw `REFUND_NEEDS_APPROVAL` for orders above 500.",
        "Live rooms close after 12 hours": "`GET /api/live/rooms` answers `closed` twelve hours after the start.",
    }
    for title, content in suggestions.items():
        (await http.post("/api/knowledge/suggest", json={"title": title, "content": content})).raise_for_status()


async def take_pictures(standalone: Standalone, chromium: str) -> None:
    """Take the pictures of all sections."""
    sandbox = [] if os.geteuid() else ["--no-sandbox"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=sandbox)
        visitors = Visitors(browser, standalone.http_url, standalone.http_headers)
        for name, look in LOOKS.items():
            async with visitors.open("/search", look) as visit:
                for section in SECTIONS:
                    await visit.open(WITH_QUERY.get(section, section))
                    await visit.page.screenshot(path=FOLDER / f"{section[1:]}-{name}.png")
        await browser.close()


async def main() -> None:
    """Start skillbus in a temporary folder, fill it and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is not there (Debian: apt-get install chromium)")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with open_standalone(StandaloneSettings(data=Path(folder) / "data", http_port=0)) as standalone:
            url, headers = standalone.http_url, standalone.http_headers
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
                await add_examples(http)
            await take_pictures(standalone, chromium)


if __name__ == "__main__":
    asyncio.run(main())
