"""What an operator decides about a skill that is there: its history, pin, state, and what was found in it."""

import hashlib

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import Skill, SkillVersion
from skillbus.contracts.indexer.skills import (
    APPROVE_NETWORK,
    CHECK_SKILL,
    GET_SKILL,
    GET_SKILL_HISTORY,
    GET_STATUS,
    LIST_SKILLS,
    PIN_SKILL,
    ROLL_BACK_SKILL,
    UNINSTALL_SKILL,
    UPDATE_SKILL,
    ApproveNetwork,
    InstallSkill,
    ListSkills,
    PinSkill,
    RollBackSkill,
    SkillChecked,
    SkillInstalled,
    SkillSelector,
    UpdateSkill,
)
from skillbus.contracts.indexer.tools import SET_TOOL_STATE, CatalogueTool, SetToolState, ToolState
from skillbus.contracts.message import Content, Empty
from skillbus.contracts.resources import PACKAGES, UPLOADS, make_package_name
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import VectorStore

from .conftest import Package, Running, skill_md
from .fake_embedder import FakeEmbedder
from .test_skills import points, subjects

NAME = "say-hello"


async def history(running: Running) -> tuple[SkillVersion, ...]:
    return (await running.bus.caller.call(GET_SKILL_HISTORY, SkillSelector(name=NAME))).versions


async def roll_back(running: Running, content_digest: str | None = None) -> SkillInstalled:
    return await running.bus.caller.call(ROLL_BACK_SKILL, RollBackSkill(name=NAME, content_digest=content_digest))


async def pin(running: Running, pinned: bool = True) -> Skill:
    return await running.bus.caller.call(PIN_SKILL, PinSkill(name=NAME, pinned=pinned))


async def skill(running: Running) -> Skill:
    return await running.bus.caller.call(GET_SKILL, SkillSelector(name=NAME))


def main_py(running: Running) -> str:
    return (running.data / "skills" / NAME / "main.py").read_text()


def version(package: Package, number: int) -> bytes:
    return package(description=f"Version {number}.", files={"main.py": f"print({number})\n"})


async def test_each_package_of_a_skill_is_a_version_and_stays(running: Running, package: Package) -> None:
    first = await running.install(version(package, 1))
    second = await running.install(version(package, 2))
    third = await running.bus.caller.call(UPDATE_SKILL, UpdateSkill(name=NAME, description="Described anew."))
    versions = await history(running)
    assert [(v.reason, v.description) for v in versions] == [
        ("described", "Described anew."),
        ("updated", "Version 2."),
        ("installed", "Version 1."),
    ]
    digests = [installed.skill.content_digest for installed in (third, second, first)]
    assert [v.content_digest for v in versions] == digests
    store = await open_object_store(running.bus, PACKAGES)
    assert await store.names() == sorted(make_package_name("default", NAME, digest) for digest in digests)


async def test_going_back_brings_the_package_before_and_is_a_version_itself(running: Running, package: Package) -> None:
    first = await running.install(version(package, 1))
    await running.install(version(package, 2))
    back = await roll_back(running)
    assert (back.outcome, back.skill.description, back.skill.indexed) == ("updated", "Version 1.", True)
    assert (back.skill.digest, back.skill.size_bytes) == (first.skill.digest, first.skill.size_bytes)
    assert main_py(running) == "print(1)\n"
    assert (await points(running))[NAME]["description"] == "Version 1."
    assert [v.reason for v in await history(running)] == ["rolled_back", "updated", "installed"]
    assert (await roll_back(running)).skill.description == "Version 2."


async def test_going_back_to_a_named_package(running: Running, package: Package) -> None:
    first = await running.install(version(package, 1))
    for number in (2, 3):
        await running.install(version(package, number))
    assert (await roll_back(running, first.skill.content_digest)).skill.description == "Version 1."
    assert (await roll_back(running, first.skill.content_digest)).outcome == "unchanged"
    assert len(await history(running)) == 4


async def test_there_is_no_going_back_to_what_never_was(running: Running, package: Package) -> None:
    await running.install(version(package, 1))
    for content_digest in (None, "0" * 64):
        with pytest.raises(RequestError) as caught:
            await roll_back(running, content_digest)
        assert caught.value.code is ErrorCode.NOT_FOUND


async def test_twenty_versions_are_kept(running: Running, package: Package) -> None:
    for number in range(22):
        await running.install(version(package, number))
    assert [v.description for v in await history(running)] == [f"Version {n}." for n in range(21, 1, -1)]


async def test_an_uninstalled_skill_leaves_no_package_of_its_history(running: Running, package: Package) -> None:
    for number in (1, 2, 3):
        await running.install(version(package, number))
    await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name=NAME))
    assert await (await open_object_store(running.bus, PACKAGES)).names() == []


async def test_a_pinned_skill_takes_its_own_package_only(running: Running, package: Package) -> None:
    await running.install(version(package, 1))
    await running.install(version(package, 2))
    assert (await pin(running)).pinned
    assert (await running.install(version(package, 2))).outcome == "unchanged"
    for attempt in (
        running.install(version(package, 3)),
        roll_back(running),
        running.bus.caller.call(UPDATE_SKILL, UpdateSkill(name=NAME, description="Another.")),
    ):
        with pytest.raises(RequestError, match="pinned") as caught:
            await attempt
        assert (caught.value.code, caught.value.retryable) == (ErrorCode.CONFLICT, False)
    assert (await skill(running)).description == "Version 2."
    assert not (await pin(running, False)).pinned
    assert (await running.install(version(package, 3))).outcome == "updated"


async def test_an_upload_of_another_package_of_a_pinned_skill_is_refused(running: Running, package: Package) -> None:
    await running.install(version(package, 1))
    await pin(running)
    bucket = await open_object_store(running.bus, UPLOADS)
    await bucket.put("hello.zip", version(package, 2))
    await eventually(lambda: subjects(running.bus), lambda seen: any(".rejected." in subject for subject in seen))
    await eventually(bucket.names, lambda names: names == [])
    assert (await skill(running)).description == "Version 1."


async def test_a_folder_with_another_package_of_a_pinned_skill_is_refused(running: Running, package: Package) -> None:
    await running.install(version(package, 1))
    await pin(running)
    (running.data / "skills" / NAME / "SKILL.md").write_text(skill_md(NAME, "Changed by hand."))
    await eventually(lambda: subjects(running.bus), lambda seen: any(".rejected." in subject for subject in seen))
    assert (await skill(running)).description == "Version 1."


async def set_enabled(running: Running, enabled: bool) -> CatalogueTool:
    return await running.bus.caller.call(SET_TOOL_STATE, SetToolState(id=f"skill:{NAME}", enabled=enabled))


async def test_a_disabled_skill_is_in_the_catalogue_and_not_in_the_index(running: Running, package: Package) -> None:
    await running.install(package())
    assert (await set_enabled(running, False)).state is ToolState.DISABLED
    found = await skill(running)
    assert (found.enabled, found.indexed, await points(running)) == (False, False, {})
    status = await running.bus.caller.call(GET_STATUS, Empty())
    assert (status.skills, status.waiting, status.points) == (1, 0, 0)
    assert (await set_enabled(running, True)).state is ToolState.ACTIVE
    assert (await skill(running)).indexed
    assert list(await points(running)) == [NAME]


async def test_a_disabled_skill_stays_so_with_another_package_and_a_restart(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder, package: Package
) -> None:
    async with open_indexer(bus, settings, store):
        running = Running(bus, store, settings.data)
        await running.install(version(package, 1))
        await set_enabled(running, False)
        assert not (await running.install(version(package, 2))).skill.enabled
    async with open_indexer(bus, settings, store):
        await running.install(package("another"))
        assert not (await skill(running)).enabled
        assert list(await points(running)) == ["another"]


async def test_what_a_look_at_the_files_finds_is_kept_and_shown(running: Running, package: Package) -> None:
    files = {"main.py": "import requests\n", "lib.sh": "echo\ncurl x\n", "tool": "\x7fELF\0", "notes.txt": "curl x"}
    scan = (await running.install(package(files=files))).skill.scan
    assert scan is not None
    assert (scan.files, scan.scripts, scan.executables) == (5, ("lib.sh", "main.py"), ("tool",))
    assert [(wish.file, wish.line, wish.what) for wish in scan.network] == [
        ("lib.sh", 2, "curl"),
        ("main.py", 1, "requests"),
    ]
    assert (await skill(running)).scan == scan


async def check(running: Running, data: bytes) -> SkillChecked:
    content = Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), inline=data)
    return await running.bus.caller.call(CHECK_SKILL, InstallSkill(package=content))


async def test_a_package_is_checked_and_not_installed(running: Running, package: Package) -> None:
    checked = await check(running, package())
    assert (checked.valid, checked.installable, checked.name) == (True, True, NAME)
    assert checked.scan is not None
    assert (await running.bus.caller.call(LIST_SKILLS, ListSkills())).total == 0
    assert await (await open_object_store(running.bus, PACKAGES)).names() == []
    assert list((running.data / ".staging").iterdir()) == []


async def test_a_package_that_bends_the_format_is_installable_and_not_valid(running: Running, package: Package) -> None:
    data = package(description="Says hello.\nversion: 1.2\nmodel: any\ncompatibility: " + "x" * 501)
    checked = await check(running, data)
    assert (checked.valid, checked.installable, checked.errors) == (False, True, ())
    codes = ["compatibility_too_long", "unknown_field", "unknown_field"]
    assert sorted(finding.code for finding in checked.breaches) == codes
    installed = await running.install(data)
    assert installed.skill.warnings == checked.warnings
    assert installed.skill.version == "1.2"


async def test_a_package_that_cannot_be_installed_is_checked_with_the_errors_of_an_install(
    running: Running, package: Package
) -> None:
    data = package(name="Bad--Name")
    checked = await check(running, data)
    assert (checked.valid, checked.installable) == (False, False)
    with pytest.raises(RequestError) as caught:
        await running.install(data)
    assert caught.value.details["errors"] == [finding.model_dump() for finding in checked.errors]
    assert checked.breaches[0] == checked.errors[0]


async def test_a_damaged_file_is_found_by_a_check(running: Running, package: Package) -> None:
    data = package(files={"notes.txt": "0123456789" * 10})
    damaged = data.replace(b"0123456789" * 10, b"0123456780" * 10)
    assert damaged != data
    assert not (await check(running, damaged)).installable


async def test_a_list_is_of_the_skills_that_the_filters_leave(running: Running, package: Package) -> None:
    for name, description in (("a", "Reads mail."), ("b", "Sends Mail.\nmetadata:\n  tags: post"), ("c", "Sings.")):
        await running.install(package(name=name, description=description))

    async def names(request: ListSkills) -> tuple[list[str], int]:
        listed = await running.bus.caller.call(LIST_SKILLS, request)
        return [found.name for found in listed.skills], listed.total

    assert await names(ListSkills(text="MAIL")) == (["a", "b"], 2)
    assert await names(ListSkills(text="mail", limit=1)) == (["a"], 2)
    assert await names(ListSkills(text="mail", after="a")) == (["b"], 2)
    assert await names(ListSkills(tag="Post")) == (["b"], 1)
    assert await names(ListSkills(enabled=False)) == ([], 0)
    assert await names(ListSkills(enabled=True, text="sing")) == (["c"], 1)


ONE, TWO = "api.example.org:443", "db.example.org:5432"


async def approve(running: Running, *places: str) -> Skill:
    return await running.bus.caller.call(APPROVE_NETWORK, ApproveNetwork(name=NAME, approved=places))


def wanting(package: Package, *places: str, description: str = "Says hello.") -> bytes:
    return package(NAME, f"{description}\nnetwork: [{', '.join(places)}]")


async def test_a_skill_that_wants_the_network_has_none_until_an_operator_approves(
    running: Running, package: Package
) -> None:
    installed = (await running.install(wanting(package, ONE, TWO))).skill
    assert (installed.network, installed.network_approved) == ((ONE, TWO), ())
    assert (await approve(running, "DB.example.org.:5432")).network_approved == (TWO,)
    assert (await skill(running)).network_approved == (TWO,)
    assert (await approve(running, TWO, ONE, TWO)).network_approved == (ONE, TWO)
    assert (await approve(running)).network_approved == ()


async def test_only_what_the_skill_wants_can_be_approved(running: Running, package: Package) -> None:
    await running.install(wanting(package, ONE))
    await approve(running, ONE)
    for places in ((TWO,), (ONE, TWO), ("api.example.org:80",)):
        with pytest.raises(RequestError, match="does not request") as caught:
            await approve(running, *places)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(RequestError) as missing:
        await running.bus.caller.call(APPROVE_NETWORK, ApproveNetwork(name="absent", approved=()))
    assert missing.value.code is ErrorCode.SKILL_NOT_FOUND
    assert (await skill(running)).network_approved == (ONE,)


async def test_a_new_version_keeps_what_was_approved_and_what_is_new_in_it_waits(
    running: Running, package: Package
) -> None:
    await running.install(wanting(package, ONE))
    await approve(running, ONE)
    more = (await running.install(wanting(package, ONE, TWO))).skill
    assert (more.network, more.network_approved) == ((ONE, TWO), (ONE,))
    request = UpdateSkill(name=NAME, description="Another.")
    assert (await running.bus.caller.call(UPDATE_SKILL, request)).skill.network_approved == (ONE,)
    assert (await running.install(wanting(package, TWO))).skill.network_approved == ()
    assert (await roll_back(running)).skill.network_approved == ()


async def test_a_skill_that_is_installed_anew_has_nothing_approved(running: Running, package: Package) -> None:
    await running.install(wanting(package, ONE))
    await approve(running, ONE)
    await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name=NAME))
    assert (await running.install(wanting(package, ONE))).skill.network_approved == ()
