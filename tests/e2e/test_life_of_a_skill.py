"""What an operator decides about a skill, as those who search and run notice it."""

import pytest

from skillbus.common.archive import pack_directory
from skillbus.common.archive_pack import PackedFile, pack_files

from .conftest import EXAMPLES, Json, System

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def change(system: System, name: str, step: str, **body: str) -> Json:
    answer = await system.http.post(f"/api/skills/{name}/{step}", json=body or None)
    assert answer.status_code == 200, answer.text
    changed: Json = answer.json()
    return changed


async def found(system: System, query: str) -> list[str]:
    return [str(hit["name"]) for hit in await system.hits(query, threshold=0, limit=100)]


async def test_a_disabled_skill_is_neither_found_nor_run_until_it_is_enabled(system: System) -> None:
    await system.install(pack_directory(EXAMPLES / "word-count"))
    assert not (await change(system, "word-count", "disable"))["enabled"]
    assert "word-count" not in await found(system, "count the words of a text")
    refused = await system.run("word-count", args={"text": "one two"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await change(system, "word-count", "enable"))["indexed"]
    assert "word-count" in await found(system, "count the words of a text")
    assert (await system.run("word-count", args={"text": "one two"})).json()["status"] == "ok"


def say(text: str) -> bytes:
    skill_md = f"---\nname: say\ndescription: Says {text}.\n---\n"
    files = {"SKILL.md": skill_md, "main.py": f"print('{text}')\n"}
    return pack_files([PackedFile(path, content.encode()) for path, content in files.items()])


async def test_what_was_gone_back_to_is_what_runs_and_what_is_found(system: System) -> None:
    for text in ("moin", "servus"):
        await system.install(say(text))
    assert (await change(system, "say", "rollback"))["description"] == "Says moin."
    (hit,) = [hit for hit in await system.hits("moin", threshold=0, limit=100) if hit["name"] == "say"]
    assert hit["description"] == "Says moin."
    assert (await system.run("say")).json()["stdout"].strip() == "moin"


async def test_a_pinned_skill_refuses_another_package_and_says_how_to_unpin_it(system: System) -> None:
    await system.install(say("moin"))
    await change(system, "say", "pin")
    refused = await system.install(say("ahoi"))
    assert (refused.status_code, refused.json()["retryable"]) == (409, False)
    assert "unpin" in refused.json()["detail"]
    await change(system, "say", "unpin")
    assert (await system.install(say("ahoi"))).is_success
