"""Folders of runs: what appears in them, and what becomes of those that a killed service left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.bubblewrap.run_folder import RunFolder, remove_left_folders
from skillbus.sandbox.domain.errors import RunRejected, SandboxBroken

LEFT = """
import pathlib, sys
from skillbus.sandbox.adapters.bubblewrap import run_folder
run_folder.find_shared_folder = lambda: pathlib.Path(sys.argv[1])
slot = run_folder.RunFolder.create(None)
slot.given.joinpath("secret").write_text("of a run")
print(slot.given.parent, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that is this test's alone."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr("skillbus.sandbox.adapters.bubblewrap.run_folder.find_shared_folder", lambda: folder)
    return folder


def service(shared: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", LEFT, shared], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def grown_old(folder: Path) -> Path:
    os.utime(folder, (time.time() - 3600,) * 2)
    return folder


async def test_a_skill_and_its_files_appear_and_go(tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    skill.joinpath("deep").mkdir(parents=True)
    skill.joinpath("deep/a.txt").write_text("a")
    slot = RunFolder.create(None)
    await slot.fill(skill, {"b/c.txt": b"c"})
    assert slot.skill.joinpath("deep/a.txt").read_text() == "a"
    assert slot.given.joinpath("b/c.txt").read_bytes() == b"c"
    slot.remove()
    assert not slot.skill.parent.exists()
    assert skill.joinpath("deep/a.txt").read_text() == "a"


async def test_what_cannot_be_read_or_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    slot = RunFolder.create(None)
    with pytest.raises(RunRejected):
        await slot.fill(tmp_path / "none", {})
    tmp_path.joinpath("skill").mkdir()
    with pytest.raises(SandboxBroken, match="files of the run"):
        await slot.fill(tmp_path / "skill", {"a" * 300: b""})
    slot.remove()


async def test_what_a_killed_service_left_is_removed_and_what_is_held_stays(shared: Path) -> None:
    child = service(shared)
    assert child.stdout is not None
    said = child.stdout.readline().decode().strip()
    left, mine = grown_old(Path(said)), RunFolder.create(None)
    grown_old(mine.skill.parent)
    remove_left_folders({os.geteuid()})
    assert left.is_dir(), "its service lives"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    remove_left_folders({os.geteuid() + 1})
    assert left.is_dir(), "it is another's"
    remove_left_folders({os.geteuid()})
    assert not left.exists()
    assert mine.skill.is_dir()
    mine.remove()


async def test_a_folder_that_was_made_just_now_is_not_looked_at() -> None:
    slot = RunFolder.create(None)
    os.close(slot._lock)  # as between making and locking
    remove_left_folders({os.geteuid()})
    assert slot.skill.is_dir()
