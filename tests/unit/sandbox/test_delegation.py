"""Which part of the cgroup tree is ours, by a folder that plays /proc/self and one that plays the tree."""

import os
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.kernel.cgroup import Cgroups, NotDelegatedError, find_delegated
from skillbus.sandbox.adapters.kernel.metering import AUTOMATIC, OFF, ChosenMetering
from skillbus.sandbox.adapters.kernel.watchdog import WatchdogMeter
from skillbus.sandbox.domain.errors import SandboxUnavailable


def process(folder: Path, group: str, *mounts: tuple[str, Path]) -> Path:
    """A process in `group`, that sees these roots of the tree at these places."""
    folder.joinpath("cgroup").write_text(f"8:pids:/elsewhere\n0::{group}\n")
    lines = [f"30 23 0:26 {root} {at} rw,nosuid - cgroup2 cgroup2 rw\n" for root, at in mounts]
    folder.joinpath("mountinfo").write_text("29 23 0:25 / /sys rw - sysfs sysfs rw\n" + "".join(lines))
    return folder


def cgroup(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("cgroup.events").touch()
    return folder


def test_a_container_s_own_root_is_its_own(tmp_path: Path) -> None:
    tree = cgroup(tmp_path / "tree")
    assert find_delegated(process(tmp_path, "/", ("/", tree))) == tree


def test_a_service_that_has_moved_below_still_finds_what_was_delegated(tmp_path: Path) -> None:
    tree = cgroup(tmp_path / "tree")
    cgroup(tree / "skillbus-service")
    assert find_delegated(process(tmp_path, "/skillbus-service", ("/", tree))) == tree


def test_the_machine_s_root_is_nobody_s(tmp_path: Path) -> None:
    with pytest.raises(NotDelegatedError, match="root of the machine's own tree"):
        find_delegated(process(tmp_path, "/", ("/", tmp_path)))


def test_a_unit_that_systemd_did_not_give_away_is_not_ours(tmp_path: Path) -> None:
    cgroup(tmp_path / "tree" / "system.slice" / "a.service")
    with pytest.raises(NotDelegatedError, match="Delegate=yes"):
        find_delegated(process(tmp_path, "/system.slice/a.service", ("/", tmp_path / "tree")))


def test_a_unit_with_systemd_s_mark_is_ours(tmp_path: Path) -> None:
    unit = cgroup(tmp_path / "a tree" / "a.service")
    try:
        os.setxattr(unit, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"the file system of temporary folders has no such attributes: {error}")
    escaped = Path(str(tmp_path / "a tree").replace(" ", "\\040"))
    assert find_delegated(process(tmp_path, "/a.service", ("/", escaped))) == unit
    os.setxattr(unit, "user.delegate", b"0")
    with pytest.raises(NotDelegatedError):
        find_delegated(process(tmp_path, "/a.service", ("/", escaped)))


def test_a_mount_that_shows_another_part_of_the_tree_is_passed_over(tmp_path: Path) -> None:
    tree = cgroup(tmp_path / "tree")
    with pytest.raises(NotDelegatedError, match="no mount of the cgroup tree"):
        find_delegated(process(tmp_path, "/", ("/docker/1", tree)))


def test_a_kernel_without_version_2_is_told(tmp_path: Path) -> None:
    process(tmp_path, "/").joinpath("cgroup").write_text("8:pids:/\n")
    with pytest.raises(NotDelegatedError, match="version 1"):
        find_delegated(tmp_path)


def test_a_tree_without_a_controller_is_refused_by_its_name(tmp_path: Path) -> None:
    tmp_path.joinpath("cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(NotDelegatedError, match="no controller for pids"):
        Cgroups(tmp_path).prepare()


def nowhere() -> Path:
    raise NotDelegatedError("nothing is ours")


async def test_without_a_cgroup_the_watchdog_holds_and_the_reason_is_told() -> None:
    metering = ChosenMetering(AUTOMATIC, find=nowhere)
    held = metering.prepare()
    assert "watchdog" in held
    assert "nothing is ours" in held
    assert isinstance(metering.create_meter(), WatchdogMeter)


def test_switched_off_nothing_is_looked_for() -> None:
    def never() -> Path:
        raise AssertionError

    assert "switched off" in ChosenMetering(OFF, find=never).prepare()


def test_a_cgroup_that_an_operator_named_is_had_or_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="SKILLBUS_SANDBOX_CGROUP"):
        ChosenMetering(str(tmp_path)).prepare()


@pytest.mark.parametrize("wanted", [AUTOMATIC, OFF])
def test_a_share_of_the_processors_is_had_or_refused(wanted: str) -> None:
    with pytest.raises(SandboxUnavailable, match="_CPUS"):
        ChosenMetering(wanted, cpus=1.0, find=nowhere).prepare()
