"""What an operator decides about a skill, with everything in memory but the folders."""

from datetime import timedelta
from pathlib import Path

import pytest

from skillbus.common.records import WriteConflictError
from skillbus.indexer.domain.catalogue.ports import StoredSkill
from skillbus.indexer.domain.catalogue.skill import PackageKey, SkillRecord
from skillbus.indexer.domain.errors import SkillPinnedError

from ..switching.world import A, collection
from .world import NAME, Life, package


@pytest.fixture
async def life(tmp_path: Path) -> Life:
    made = Life(tmp_path)
    await made.installer.install("default", package(1))
    return made


def points(life: Life) -> int:
    return len(life.collections.points[collection(A)])


def record(life: Life) -> SkillRecord:
    assert life.record is not None
    return life.record


async def test_a_disabled_skill_is_not_indexed_and_says_so(life: Life) -> None:
    disabled = await life.installer.set_enabled("default", NAME, False)
    assert (disabled.skill.enabled, disabled.skill.indexed, points(life)) == (False, False, 0)
    assert life.announcer.said[-1] == "updated"
    enabled = await life.installer.set_enabled("default", NAME, True)
    assert (enabled.skill.enabled, enabled.skill.indexed, points(life)) == (True, True, 1)


async def test_disabling_twice_is_said_once(life: Life) -> None:
    for _ in range(2):
        await life.installer.set_enabled("default", NAME, False)
    assert life.announcer.said.count("updated") == 1


async def test_a_disabled_skill_stays_so_when_it_is_installed_again_and_after_a_restart(life: Life) -> None:
    await life.installer.set_enabled("default", NAME, False)
    await life.installer.install("default", package(2))
    await life.restart()
    assert (record(life).skill.enabled, points(life)) == (False, 0)
    assert record(life).skill.description == "Version 2."


async def test_a_disabled_skill_that_the_store_kept_is_taken_out_later(life: Life) -> None:
    held = life.collections.points.pop(collection(A))
    assert not (await life.installer.set_enabled("default", NAME, False)).skill.enabled
    life.collections.points[collection(A)] = held
    await life.follower.follow_skill("default", NAME)
    assert points(life) == 0


async def test_the_folder_of_a_disabled_skill_is_no_way_back_to_its_earlier_package(life: Life, tmp_path: Path) -> None:
    """Here lies the package of before, never marked as indexed; another replica has installed a newer one."""
    await life.installer.set_enabled("default", NAME, False)
    await life.installer.install("default", package(2))
    other = life.replica(tmp_path / "other")
    await other.restart()
    await life.installer.install("default", package(3))
    await other.restart()
    assert record(life).skill.description == "Version 3."
    assert other.folders.matches_record(record(life))


@pytest.mark.parametrize("enabled", [True, False])  # the folder of a disabled skill has no mark
async def test_an_earlier_package_put_back_by_hand_is_installed_again(life: Life, enabled: bool) -> None:
    await life.installer.set_enabled("default", NAME, enabled)
    await life.installer.install("default", package(2))
    current, *earlier = record(life).history
    a_minute_ago = current.model_copy(update={"installed_at": current.installed_at - timedelta(minutes=1)})
    life.catalogue.has(record(life).model_copy(update={"versions": (a_minute_ago, *earlier)}))
    for path, text in (("main.py", "print(1)\n"), ("SKILL.md", f"---\nname: {NAME}\ndescription: Version 1.\n---\n")):
        (life.folder / path).unlink()  # so that the folder itself changes
        (life.folder / path).write_text(text)
    await life.reconciler.scan_folders()
    assert [version.description for version in record(life).history] == ["Version 1.", "Version 2.", "Version 1."]


async def test_a_pin_holds_whatever_way_a_package_comes(life: Life) -> None:
    await life.installer.set_pinned("default", NAME, True)
    with pytest.raises(SkillPinnedError):
        await life.installer.install("default", package(2))
    with pytest.raises(SkillPinnedError):
        await life.installer.update_description("default", NAME, "Another.")
    assert (await life.installer.install("default", package(1))).outcome == "unchanged"
    (life.folder / "main.py").write_text("print('by hand')\n")
    await life.reconciler.scan_folders()
    assert life.announcer.said[-1] == "rejected:pinned"
    assert record(life).skill.description == "Version 1."


async def test_a_description_for_a_package_that_was_replaced_meanwhile_is_a_conflict(life: Life) -> None:
    update = life.installer.update_description("default", NAME, "Of the first package.")
    kept = life.packages.load_package

    async def get_after_another_install(key: PackageKey) -> bytes:
        life.packages.load_package = kept  # type: ignore[method-assign]  # this once
        await life.installer.install("default", package(2))
        return await kept(record(life).package)

    life.packages.load_package = get_after_another_install  # type: ignore[method-assign]
    with pytest.raises(WriteConflictError):
        await update
    assert record(life).skill.description == "Version 2."


async def test_a_record_from_before_there_was_a_history_has_its_package_as_the_first_version(life: Life) -> None:
    old = record(life).model_copy(update={"versions": ()})
    life.catalogue.has(old)
    await life.installer.install("default", package(2))
    assert [version.reason for version in record(life).history] == ["updated", "installed"]
    await life.restart()
    assert (await life.installer.roll_back("default", NAME, None)).record.skill.description == "Version 1."


@pytest.mark.parametrize(("seconds_later", "installed"), [(-60, False), (60, True)])
async def test_a_folder_of_an_uninstalled_skill_is_installed_again_only_if_it_changed_afterwards(
    life: Life, seconds_later: int, installed: bool
) -> None:
    """Another replica uninstalled the skill; this machine still has its folder."""
    changed_at = life.folders.read_state(life.folder)
    assert changed_at is not None
    del life.catalogue.stored["default", NAME]
    life.catalogue.removed["default", NAME] = changed_at.changed_at - timedelta(seconds=seconds_later)
    await life.reconciler.check_folder(life.folder)
    assert (life.record is not None, life.folder.exists()) == (installed, installed)


async def test_an_install_reads_the_record_once_and_writes_it_twice(life: Life) -> None:
    life.calls.count = 0
    reads: list[str] = []
    load = life.catalogue.load_skill

    async def count_load(project: str, name: str) -> StoredSkill | None:
        reads.append(name)
        return await load(project, name)

    life.catalogue.load_skill = count_load  # type: ignore[method-assign]
    installed = await life.installer.install("default", package(2))
    assert installed.record.skill.indexed
    assert reads == [NAME]
    assert life.catalogue.stored["default", NAME].revision == 4


async def test_what_falls_out_of_the_history_is_swept(life: Life) -> None:
    for number in range(2, 23):
        await life.installer.install("default", package(number))
    assert len(life.packages.kept) == 22
    await life.reconciler.delete_unclaimed_packages()
    assert set(life.packages.kept) == record(life).packages
    assert len(life.packages.kept) == 20
