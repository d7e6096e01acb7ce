"""Skills as the sandbox keeps them: unpacked when they are run, forgotten when others are."""

import asyncio

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError

from .conftest import OpenSandbox
from .fakes import HeldIsolation


def _open_isolation() -> HeldIsolation:
    isolation = HeldIsolation()
    isolation.go_on.set()
    return isolation


async def test_the_least_recently_run_is_forgotten_and_unpacked_again(open_one: OpenSandbox) -> None:
    async with open_one(_open_isolation(), kept_skills=2) as sandbox:
        skills = [await sandbox.catalogue.put(name, name) for name in ("a", "b", "c")]
        for name in ("a", "b", "a", "c"):
            assert await sandbox.text_of(await sandbox.run(name)) == name
        digests = {skill.name: skill.content_digest for skill in skills}
        assert sandbox.unpacked() == {digests["a"], digests["c"]}
        assert await sandbox.text_of(await sandbox.run("b")) == "b"
        assert sandbox.unpacked() == {digests["c"], digests["b"]}


async def test_a_skill_that_runs_is_not_forgotten(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held, kept_skills=1, slots=2) as sandbox:
        await sandbox.catalogue.put("a", "a")
        await sandbox.catalogue.put("b", "b")
        async with asyncio.timeout(5):
            runs = [asyncio.create_task(sandbox.run(name)) for name in ("a", "b")]
            await held.begun.acquire()
            await held.begun.acquire()
            held.go_on.set()
            ran = await asyncio.gather(*runs)
    assert [await sandbox.text_of(one) for one in ran] == ["a", "b"]


async def test_skills_that_push_each_other_out_are_all_run(open_one: OpenSandbox) -> None:
    many = {f"data/{number}.txt": "x" for number in range(150)}
    async with open_one(_open_isolation(), kept_skills=1, slots=4, waiting=100) as sandbox:
        names = ("a", "b", "c")
        for name in names:
            await sandbox.catalogue.put(name, name, more=many)
        wanted = [names[number % 3] for number in range(36)]
        async with asyncio.timeout(20):
            ran = await asyncio.gather(*(sandbox.run(name) for name in wanted))
        assert [await sandbox.text_of(one) for one in ran] == wanted
        assert len(sandbox.unpacked()) == 1


async def test_a_new_version_of_a_skill_is_what_runs_next(open_one: OpenSandbox) -> None:
    async with open_one(_open_isolation()) as sandbox:
        await sandbox.catalogue.put("a", "old")
        assert await sandbox.text_of(await sandbox.run("a")) == "old"
        await sandbox.catalogue.put("a", "new")
        assert await sandbox.text_of(await sandbox.run("a")) == "new"


async def test_what_an_earlier_process_left_is_cleared_at_the_start(open_one: OpenSandbox) -> None:
    async with open_one(_open_isolation()) as sandbox:
        skill = await sandbox.catalogue.put("a", "a")
        await sandbox.run("a")
        (sandbox.folder / skill.content_digest / "main.py").unlink()
        (sandbox.folder / ".half").mkdir()
    async with open_one(_open_isolation()) as sandbox:
        assert sandbox.unpacked() == set()
        assert await sandbox.text_of(await sandbox.run("a")) == "a"


@pytest.mark.parametrize("damage", [b"", b"not a zip", b"PK\x03\x04" + bytes(100)])
async def test_a_damaged_package_is_an_error_that_says_so_until_it_is_whole_again(
    open_one: OpenSandbox, damage: bytes
) -> None:
    async with open_one(_open_isolation()) as sandbox:
        skill = await sandbox.catalogue.put("a", "a")
        await sandbox.catalogue.packages.put(sandbox.catalogue.package_of(skill), damage)
        with pytest.raises(RequestError) as caught:
            await sandbox.run("a")
        assert caught.value.code == ErrorCode.INTERNAL
        assert "install it again" in caught.value.message
        assert sandbox.unpacked() == set()
        await sandbox.catalogue.put("a", "a")
        assert await sandbox.text_of(await sandbox.run("a")) == "a"


async def test_a_package_that_is_gone_is_said_to_be_missing(open_one: OpenSandbox) -> None:
    async with open_one(_open_isolation()) as sandbox:
        skill = await sandbox.catalogue.put("a", "a")
        await sandbox.catalogue.packages.delete(sandbox.catalogue.package_of(skill))
        with pytest.raises(RequestError) as caught:
            await sandbox.run("a")
    assert caught.value.code == ErrorCode.NOT_FOUND
