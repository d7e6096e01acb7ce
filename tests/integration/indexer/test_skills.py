"""The life of a skill, from an upload to its end."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG, ListAuditLog
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    GET_SKILL,
    GET_STATUS,
    INSTALL_SKILL,
    LIST_SKILLS,
    UNINSTALL_SKILL,
    UPDATE_SKILL,
    UPLOAD_REJECTED,
    UPLOAD_TAKEN,
    InstallSkill,
    ListSkills,
    SkillSelector,
    UpdateSkill,
)
from skillbus.contracts.message import Content, Empty
from skillbus.contracts.resources import CATALOGUE, EVENTS, PACKAGES, UPLOADS, make_package_name
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import VectorStore
from skillbus.vectors.datasets import TOOLS

from .conftest import Package, Running, skill_md
from .fake_embedder import FakeEmbedder


async def code_of(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        await call
    return caught.value.code


async def points(running: Running) -> dict[str, dict[str, object]]:
    collection = await running.store.resolve_alias(TOOLS.alias)
    if collection is None:
        return {}
    records, _ = await running.store.scroll(collection)
    return {str((record.payload or {})["name"]): record.payload or {} for record in records}


async def skills(running: Running) -> list[str]:
    listed = await running.bus.caller.call(LIST_SKILLS, ListSkills())
    return [skill.name for skill in listed.skills]


async def recorded(running: Running) -> list[tuple[str, str, tuple[str, ...]]]:
    """Door, outcome and skills of each install in the audit log."""
    log = await running.bus.caller.call(LIST_AUDIT_LOG, ListAuditLog(act="install_skill"))
    return [(fact.door, fact.outcome, fact.subjects) for fact in log.facts]


async def until_listed(running: Running, *names: str) -> None:
    await eventually(lambda: skills(running), lambda found: sorted(found) == sorted(names))


async def subjects(bus: Bus) -> list[str]:
    state = (await bus.jetstream.stream_info(EVENTS.name)).state
    return [(await bus.jetstream.get_msg(EVENTS.name, at)).subject or "" for at in range(1, state.last_seq + 1)]


@pytest.mark.spec("skill-vector-retrieval.md § 索引新Skills")
async def test_an_installed_skill_is_in_catalogue_index_folder_and_package_store(
    running: Running, package: Package
) -> None:
    """skill-vector-retrieval.md § 索引新Skills"""
    installed = await running.install(package())
    skill = installed.skill
    assert (installed.outcome, skill.name, skill.indexed) == ("installed", "say-hello", True)
    assert [(entry.action, entry.script) for entry in skill.entry_points] == [("main", "scripts/main.py")]
    point = (await points(running))["say-hello"]
    assert (point["description"], point["tool_type"], point["path"]) == ("Says hello.", "skill", "skills/say-hello")
    assert point["indexed_at"]
    folder = running.data / "skills" / "say-hello"
    assert (folder / "scripts" / "main.py").read_text() == "print('hello')\n"
    store = await open_object_store(running.bus, PACKAGES)
    assert await store.names() == [make_package_name("default", "say-hello", skill.content_digest)]
    assert await running.bus.caller.call(GET_SKILL, SkillSelector(name="say-hello")) == skill


@pytest.mark.spec("skill-vector-retrieval.md § 首次索引Skills")
@pytest.mark.spec("tool-system.md § .vectorized 标识")
async def test_an_indexed_folder_is_marked(running: Running, package: Package) -> None:
    """skill-vector-retrieval.md § 首次索引Skills"""
    await running.install(package())
    folder = running.data / "skills" / "say-hello"
    mark = json.loads((folder / ".vectorized").read_text())
    assert mark["skillSize"] == len((folder / "SKILL.md").read_bytes())
    assert len(mark["skillHash"]) == 8
    assert mark["indexedAt"] > 1_700_000_000_000


async def test_the_same_package_again_changes_nothing(running: Running, package: Package) -> None:
    """skill-vector-retrieval.md § Skills内容未变更"""
    first = await running.install(package())
    again = await running.install(package())
    assert (again.outcome, again.skill) == ("unchanged", first.skill)
    assert [s for s in await subjects(running.bus) if ".installed." in s] == ["skillbus.evt.skill.installed.say-hello"]


@pytest.mark.spec("skill-vector-retrieval.md § 更新已索引Skills")
async def test_another_package_of_the_same_name_updates(running: Running, package: Package) -> None:
    """skill-vector-retrieval.md § 更新已索引Skills"""
    first = await running.install(package())
    second = await running.install(package(description="Says goodbye.", files={"other.sh": "echo bye\n"}))
    assert second.outcome == "updated"
    assert (await points(running))["say-hello"]["description"] == "Says goodbye."
    assert not (running.data / "skills" / "say-hello" / "scripts").exists()
    assert second.skill.installed_at == first.skill.installed_at
    assert len(await points(running)) == 1


async def test_a_new_description_is_written_into_skill_md_and_indexed(running: Running, package: Package) -> None:
    """tool-system.md § SkillManager 修改"""
    await running.install(package())
    updated = await running.bus.caller.call(UPDATE_SKILL, UpdateSkill(name="say-hello", description="问候: 打招呼"))
    assert (updated.outcome, updated.skill.description) == ("updated", "问候: 打招呼")
    assert (await points(running))["say-hello"]["description"] == "问候: 打招呼"
    assert "问候: 打招呼" in (running.data / "skills" / "say-hello" / "SKILL.md").read_text("utf-8")


@pytest.mark.spec("tool-system.md § SkillManager 卸载")
async def test_an_uninstalled_skill_leaves_nothing(running: Running, package: Package) -> None:
    """tool-system.md § SkillManager 卸载"""
    await running.install(package())
    await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name="say-hello"))
    assert await points(running) == {}
    assert await skills(running) == []
    assert not (running.data / "skills" / "say-hello").exists()
    assert await (await open_object_store(running.bus, PACKAGES)).names() == []
    for endpoint in (GET_SKILL, UNINSTALL_SKILL):
        assert (
            await code_of(running.bus.caller.call(endpoint, SkillSelector(name="say-hello")))
            == ErrorCode.SKILL_NOT_FOUND
        )
    again = await running.install(package())
    assert (again.outcome, again.skill.indexed) == ("installed", True)


async def test_projects_do_not_see_each_other(running: Running, package: Package) -> None:
    await running.install(package(description="Of the default project."))
    await running.install(package(description="Of another project."), project="other")
    one: Skill = await running.bus.caller.call(GET_SKILL, SkillSelector(name="say-hello"))
    two: Skill = await running.bus.caller.call(GET_SKILL, SkillSelector(name="say-hello", project="other"))
    assert (one.description, two.description) == ("Of the default project.", "Of another project.")
    await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name="say-hello", project="other"))
    assert await skills(running) == ["say-hello"]
    assert (running.data / "skills" / "say-hello").is_dir()
    assert not (running.data / "projects" / "other" / "skills" / "say-hello").exists()


async def test_a_bad_package_is_refused_and_nothing_of_it_stays(running: Running, package: Package) -> None:
    with pytest.raises(RequestError) as caught:
        await running.install(package(name="Bad--Name"))
    assert caught.value.code == ErrorCode.SKILL_REJECTED
    assert caught.value.details["reason"] == "bad_name"
    assert await skills(running) == []
    assert list((running.data / "skills").iterdir()) == []
    assert list((running.data / ".staging").iterdir()) == []


async def test_a_package_that_is_not_what_its_digest_says_is_refused(running: Running, package: Package) -> None:
    content = Content(size_bytes=3, sha256="0" * 64, inline=package())
    assert await code_of(running.bus.caller.call(INSTALL_SKILL, InstallSkill(package=content))) == (
        ErrorCode.INVALID_REQUEST
    )


async def test_twenty_installs_of_one_skill_at_once_leave_one_whole_skill(running: Running, package: Package) -> None:
    versions = [package(files={"main.py": f"print({number})\n"}) for number in range(20)]
    outcomes = await asyncio.gather(*(running.install(version) for version in versions), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert all(isinstance(error, RequestError) and error.code == ErrorCode.OVERLOADED for error in refused)
    skill = await running.bus.caller.call(GET_SKILL, SkillSelector(name="say-hello"))
    assert skill.indexed
    store = await open_object_store(running.bus, PACKAGES)
    assert make_package_name("default", "say-hello", skill.content_digest) in await store.names()
    assert (await points(running))["say-hello"]["metadata"]["digest"] == skill.digest  # type: ignore[index]


async def test_an_upload_to_the_bucket_is_installed_and_taken_out(running: Running, package: Package) -> None:
    bucket = await open_object_store(running.bus, UPLOADS)
    await bucket.put("hello.zip", package())
    await bucket.put("other/hello.zip", package(description="Of another project."))
    await until_listed(running, "say-hello")
    await eventually(bucket.names, lambda names: names == [])
    skill = await running.bus.caller.call(GET_SKILL, SkillSelector(name="say-hello", project="other"))
    assert skill.description == "Of another project."


@pytest.mark.parametrize("name", ["Team-A/hello.zip", "Bad Project/hello.zip", "a/b/hello.zip", "hello", "/hello.zip"])
async def test_an_upload_that_names_no_project_is_refused_and_not_shown_to_another(
    running: Running, package: Package, name: str
) -> None:
    bucket = await open_object_store(running.bus, UPLOADS)
    await bucket.put(name, package())
    await eventually(bucket.names, lambda names: names == [])
    await eventually(lambda: subjects(running.bus), lambda seen: any(".rejected." in subject for subject in seen))
    assert await skills(running) == []


async def test_a_skill_is_announced_as_installed_before_it_is_as_indexed(running: Running, package: Package) -> None:
    await running.install(package())
    assert await subjects(running.bus) == [
        "skillbus.evt.skill.installed.say-hello",
        "skillbus.evt.skill.indexed.say-hello",
    ]


async def test_a_folder_below_a_relative_data_directory_is_taken_up_too(
    bus: Bus,
    store: VectorStore,
    embedder: FakeEmbedder,
    package: Package,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = IndexerSettings(data=Path("here"), reconcile_every_s=3600)
    async with open_indexer(bus, settings, store):
        running = Running(bus, store, tmp_path / "here")
        await running.install(package(name="first"))
        write_skill(running.data / "skills" / "by-hand", "by-hand", "Put there by hand.")
        await until_listed(running, "by-hand", "first")


async def test_the_same_upload_again_is_announced_as_unchanged(running: Running, package: Package) -> None:
    bucket = await open_object_store(running.bus, UPLOADS)
    for count in (1, 2):
        await bucket.put("hello.zip", package())
        await eventually(
            lambda: subjects(running.bus), lambda seen, n=count: seen.count(UPLOAD_TAKEN.subject("hello_zip")) == n
        )
        await eventually(bucket.names, lambda names: names == [])
    state = (await running.bus.jetstream.stream_info(EVENTS.name)).state
    last = await running.bus.jetstream.get_msg(EVENTS.name, state.last_seq)
    assert json.loads(last.data or b"")["outcome"] == "unchanged"
    assert await recorded(running) == [("bucket", "done", ("say-hello",))], "what changed nothing is no act"


async def test_a_bad_upload_is_announced_and_taken_out(running: Running) -> None:
    bucket = await open_object_store(running.bus, UPLOADS)
    await bucket.put("bad.zip", b"not a zip")
    await eventually(lambda: subjects(running.bus), lambda seen: UPLOAD_REJECTED.subject("bad_zip") in seen)
    await eventually(bucket.names, lambda names: names == [])
    assert await recorded(running) == [("bucket", "refused", ())]


@pytest.mark.spec("skill-vector-retrieval.md § 首次索引Skills")
async def test_a_folder_put_there_by_hand_is_installed(running: Running) -> None:
    folder = running.data / "skills" / "by-hand"
    write_skill(folder, "by-hand", "Put there by hand.")
    await until_listed(running, "by-hand")
    await eventually(lambda: exists(folder / ".vectorized"), bool)
    assert (await points(running))["by-hand"]["description"] == "Put there by hand."
    assert await eventually(lambda: recorded(running), bool) == [("folder", "done", ("by-hand",))]


@pytest.mark.spec("skill-vector-retrieval.md § Skills描述变更")
async def test_a_changed_skill_md_is_indexed_again(running: Running) -> None:
    """skill-vector-retrieval.md § Skills描述变更"""
    folder = running.data / "skills" / "by-hand"
    write_skill(folder, "by-hand", "First.")
    await until_listed(running, "by-hand")
    await eventually(lambda: exists(folder / ".vectorized"), bool)
    before = (folder / ".vectorized").read_text()
    (folder / "SKILL.md").write_text(skill_md("by-hand", "Second."))
    await eventually(lambda: points(running), lambda found: found["by-hand"]["description"] == "Second.")
    await eventually(lambda: exists(folder / ".vectorized"), bool)
    assert json.loads((folder / ".vectorized").read_text())["skillHash"] != json.loads(before)["skillHash"]


async def test_a_folder_under_another_name_than_its_skill_moves_to_the_skills_name(running: Running) -> None:
    write_skill(running.data / "skills" / "some-folder", "real-name", "Its folder has another name.")
    await until_listed(running, "real-name")
    await eventually(lambda: exists(running.data / "skills" / "some-folder"), lambda there: not there)
    assert (running.data / "skills" / "real-name" / "SKILL.md").exists()


async def test_a_page_of_skills_goes_on_where_the_last_one_ended(running: Running, package: Package) -> None:
    for name in ("a", "b", "c"):
        await running.install(package(name=name))
    first = await running.bus.caller.call(LIST_SKILLS, ListSkills(limit=2))
    rest = await running.bus.caller.call(LIST_SKILLS, ListSkills(limit=2, after=first.next))
    assert [skill.name for skill in first.skills] == ["a", "b"]
    assert ([skill.name for skill in rest.skills], rest.next, rest.total) == (["c"], None, 3)


async def test_the_status_counts_skills_and_points(running: Running, package: Package) -> None:
    await running.install(package())
    status = await running.bus.caller.call(GET_STATUS, Empty())
    assert (status.skills, status.waiting, status.points) == (1, 0, 1)


def write_skill(folder: Path, name: str, description: str) -> None:
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_md(name, description))


async def exists(path: Path) -> bool:
    return path.exists()


async def test_damaged_records_hide_no_other_skill_and_can_be_installed_over(
    running: Running, package: Package
) -> None:
    await running.install(package("sound"))
    bucket = await running.bus.jetstream.key_value(CATALOGUE.name)
    sound = (await bucket.get("default.skill.sound")).value or b""
    for name, value in (("noise", b"\xff"), ("empty", b"{}"), ("other", sound)):
        await bucket.put(f"default.skill.{name}", value)

    assert await skills(running) == ["sound"]
    assert await code_of(running.bus.caller.call(GET_SKILL, SkillSelector(name="other"))) is ErrorCode.SKILL_NOT_FOUND
    assert (await running.install(package("noise"))).outcome == "installed"
    assert await skills(running) == ["noise", "sound"]


def wordy(bytes_of_schema: int) -> dict[str, str]:
    """A script whose arguments take so much to describe."""
    calls = "".join(f"p.add_argument('--a{n}', help='{'x' * 490}')\n" for n in range(bytes_of_schema // 550))
    return {f"scripts/{n}.py": f"import argparse\np = argparse.ArgumentParser()\n{calls}" for n in range(10)}


async def test_skills_that_take_more_than_a_message_to_list_are_listed_by_page(
    running: Running, package: Package
) -> None:
    names = [f"wordy-{n}" for n in range(3)]
    for name in names:
        await running.install(package(name, files=wordy(40_000)))

    found, after = list[str](), None
    for _ in names:
        page = await running.bus.caller.call(LIST_SKILLS, ListSkills(limit=1000, after=after))
        assert (page.total, len(page.skills) > 0) == (3, True)
        found, after = [*found, *(skill.name for skill in page.skills)], page.next
        if after is None:
            break
    assert found == names


async def test_a_skill_that_takes_too_much_to_describe_is_refused_and_leaves_nothing(
    running: Running, package: Package
) -> None:
    assert await code_of(running.install(package(files=wordy(60_000)))) is ErrorCode.SKILL_REJECTED
    assert await skills(running) == []
    assert list((running.data / "skills").iterdir()) == list((running.data / ".staging").iterdir()) == []
    assert await (await open_object_store(running.bus, PACKAGES)).names() == []
