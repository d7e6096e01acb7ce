"""Installs that a crash cut short: the same package again makes them whole."""

import shutil

import pytest

from skillbus.contracts.indexer.skill_record import Skill

from .conftest import Package, Running


async def _installed(running: Running, package: bytes) -> Skill:
    return (await running.install(package)).skill


async def test_the_same_package_again_puts_back_a_folder_that_is_gone(running: Running, package: Package) -> None:
    first = await _installed(running, package())
    folder = running.data / "skills" / "say-hello"
    shutil.rmtree(folder)
    again = await running.install(package())
    assert (again.outcome, again.skill) == ("unchanged", first)
    assert (folder / "scripts" / "main.py").read_text() == "print('hello')\n"
    assert (folder / ".vectorized").is_file()
    assert list((running.data / ".staging").iterdir()) == []


@pytest.mark.parametrize("left", ["link", "other"])
async def test_the_same_package_again_puts_its_files_in_place_of_others(
    running: Running, package: Package, left: str
) -> None:
    await running.install(package())
    script = running.data / "skills" / "say-hello" / "scripts" / "main.py"
    script.unlink()
    if left == "link":
        script.symlink_to("/etc/hostname")
    await running.install(package())
    assert not script.is_symlink()
    assert script.read_text() == "print('hello')\n"
