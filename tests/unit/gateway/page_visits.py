"""Pages as a browser gets them, and the hostile text that none of them may turn into markup."""

import re

import httpx

from .fakes import World

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"


async def get_page(world: World, path: str, key: str | None = None, **headers: str) -> httpx.Response:
    """Return the answer to a browser that opens a page. A header's name has `_` for `-`."""
    sent = {"Accept": "text/html"} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with world.client(key) as client:
        return await client.get(path, headers=sent)


def assert_harmless(answer: httpx.Response) -> None:
    """Fail unless the page shows the hostile text as text, and has no inline script or style."""
    assert answer.status_code == 200, answer.text
    assert "&lt;script&gt;alert" in answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert not re.search(r"\son[a-z]+=[\"']|\sstyle=", answer.text)
