"""Texts that would be markup where a page forgets to escape them, in everything that the pages show."""

from typing import Final

from ..e2e.conftest import System, skill_package

EVIL: Final = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`><svg onload=alert(3)>"
LONG: Final = "a" * 150
"""A word that fits no line of a narrow window."""
LOG: Final = "".join(
    f"2026-09-30T08:0{minute}:00Z ERROR payment {EVIL} refused: card expired\n" for minute in range(10)
)
TESTS: Final = (
    '<testsuite name="s"><testcase classname="&lt;script&gt;alert(4)&lt;/script&gt;" name="&lt;img src=x&gt;">'
    '<failure message="&lt;svg onload=alert(6)&gt;">&lt;b&gt;</failure></testcase></testsuite>'
)


async def add_hostile_data(system: System) -> None:
    """Fill a skillbus with an item of two versions, a pending item, a skill, a home and what is learnt of logs."""
    item = {"title": f"{EVIL} {LONG}", "content": f"{EVIL}\n\n{LONG}\n\n| a | b |\n| - | - |\n| {LONG} | `{LONG}` |"}
    more = {"tags": [EVIL[:90]], "source": "import", "source_ref": EVIL, "owner": EVIL, "scope": f"module:{LONG}"}
    added = await system.http.post("/api/knowledge", json=item | more)
    assert added.status_code == 201, added.text
    path = f"/api/knowledge/{added.json()['item']['id']}"
    assert (await system.http.put(path, json={"content": f"new {EVIL}", "reason": EVIL})).status_code == 200
    suggested = await system.http.post("/api/knowledge/suggest", json={"title": EVIL, "content": item["content"]})
    assert suggested.status_code in {200, 201}, suggested.text
    installed = await system.install(skill_package("evil", "Answers with alert(7).", tags=("<b>",)))
    assert installed.status_code in {200, 201}, installed.text
    assert (await system.run("evil")).status_code == 200
    for kind, name, text in (("logs", "app.log", LOG), ("tests", "junit.xml", TESTS)):
        learnt = await system.http.post(
            f"/api/learn/{kind}", params={"name": name, "source": "shop"}, content=text.encode()
        )
        assert learnt.status_code in {200, 202}, learnt.text
