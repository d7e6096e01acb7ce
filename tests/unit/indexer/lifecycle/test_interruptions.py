"""A crash between any two steps leaves a state that a restart makes whole."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from .world import NAME, Life, package

Doing = Callable[[Life], Awaitable[object]]

CHANGES: dict[str, Doing] = {
    "install": lambda life: life.installer.install("default", package(3)),
    "describe": lambda life: life.installer.update_description("default", NAME, "Described anew."),
    "roll_back": lambda life: life.installer.roll_back("default", NAME, None),
    "disable": lambda life: life.installer.set_enabled("default", NAME, False),
    "enable": lambda life: life.installer.set_enabled("default", NAME, True),
    "pin": lambda life: life.installer.set_pinned("default", NAME, True),
    "uninstall": lambda life: life.installer.uninstall("default", NAME),
}


async def two_versions(data: Path, *, enabled: bool) -> Life:
    life = Life(data)
    for number in (1, 2):
        await life.installer.install("default", package(number))
    if not enabled:
        await life.installer.set_enabled("default", NAME, False)
    return life


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_that_is_killed_at_any_step_is_whole_after_a_restart(
    tmp_path: Path, change: str, enabled: bool
) -> None:
    at_step, was_killed = 0, True
    while was_killed:
        life = await two_versions(tmp_path / f"{at_step}", enabled=enabled)
        before = life.record
        assert before is not None
        was_killed = await life.kill(CHANGES[change](life), at_step)
        await life.restart()
        life.assert_whole()
        after = life.record
        if after is not None:  # nothing but the change that was asked for came of it
            assert after.content_digest == before.content_digest or len(after.history) == len(before.history) + 1
        at_step += 1
    assert at_step > 1 or change in {"disable", "enable", "pin"}


async def test_a_first_install_that_is_killed_at_any_step_is_whole_after_the_same_again(tmp_path: Path) -> None:
    at_step, was_killed = 0, True
    while was_killed:
        life = Life(tmp_path / f"{at_step}")
        was_killed = await life.kill(life.installer.install("default", package(1)), at_step)
        life.begin()
        installed = await life.installer.install("default", package(1))
        assert installed.record.skill.indexed
        life.assert_whole()
        at_step += 1
    assert at_step > 5
