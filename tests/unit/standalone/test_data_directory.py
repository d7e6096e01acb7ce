"""Files of a data directory that hold the owner's key: nobody else reads them, and none is left half written."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.standalone.app import StartError
from skillbus.standalone.data_directory import load_owner_key, lock_data_directory, write_connection_note
from skillbus.standalone.storage import prepare_disk

HTTP, NATS = "http://127.0.0.1:1", "nats://127.0.0.1:1"
KEY = "the-owner's-key"


def note(data: Path) -> None:
    with write_connection_note(data, HTTP, NATS, "token", KEY):
        pytest.fail("it started")


def test_a_note_that_cannot_be_written_leaves_no_key_and_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "connection.json").mkdir()
    with pytest.raises(StartError, match=r"connection\.json") as refused:
        note(tmp_path)
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["connection.json"]


def test_a_disk_that_is_full_leaves_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[str]()

    def fail_at_the_second(descriptor: int) -> None:
        written.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_at_the_second)
    with pytest.raises(StartError, match="No space left"):
        note(tmp_path)
    assert written == ["auth.header.new", "connection.json.new"]
    assert list(tmp_path.iterdir()) == []


def test_a_note_replaces_what_a_killed_process_left(tmp_path: Path) -> None:
    for name in ("connection.json", "connection.json.new", "auth.header", "auth.header.new"):
        (tmp_path / name).write_text("of before")
    with write_connection_note(tmp_path, HTTP, NATS, "token", None):
        assert [path.name for path in tmp_path.iterdir()] == ["connection.json"]
        assert stat.S_IMODE((tmp_path / "connection.json").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []


def link(path: Path) -> None:
    path.with_name("elsewhere").write_text(KEY)
    path.with_name("elsewhere").chmod(0o600)
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [link, lambda path: path.symlink_to("nowhere"), Path.mkdir, os.mkfifo])
def test_an_owners_key_in_something_else_than_a_plain_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "owner.key")
    with pytest.raises(StartError, match=r"no plain file.*chmod 600") as refused:
        load_owner_key(tmp_path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_an_owners_key_that_others_may_know_is_refused(tmp_path: Path, mode: int) -> None:
    key = load_owner_key(tmp_path)
    (tmp_path / "owner.key").chmod(mode)
    with pytest.raises(StartError, match=r"other users.*chmod 600") as refused:
        load_owner_key(tmp_path)
    assert key not in str(refused.value)
    (tmp_path / "owner.key").chmod(0o600)
    assert load_owner_key(tmp_path) == key


def test_an_owners_key_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_owner_key(tmp_path)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(StartError, match=r"another user.*chmod 600"):
        load_owner_key(tmp_path)


def test_a_first_start_that_was_interrupted_while_it_wrote_the_key_blocks_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(StartError):
            load_owner_key(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "owner.key.new").write_text("skb_own")  # of a process that was killed
    key = load_owner_key(tmp_path)
    assert len(key) > 43
    assert [path.name for path in tmp_path.iterdir()] == ["owner.key"]


def test_the_lock_is_its_users_alone(tmp_path: Path) -> None:
    with lock_data_directory(tmp_path):
        assert stat.S_IMODE((tmp_path / "skillbus.lock").stat().st_mode) == 0o600


def set_free(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096))


def test_a_disk_without_room_stops_the_start_and_says_how_much_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_disk(tmp_path, None)
    set_free(monkeypatch, 5 * 2**20)
    with pytest.raises(StartError, match=r"has 5\.0 MiB free, and the start needs 64 MiB") as refused:
        prepare_disk(tmp_path, None)
    assert "\n" not in str(refused.value)


def test_a_directory_with_data_needs_little_room_for_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nats").mkdir()
    set_free(monkeypatch, 9 * 2**20)
    assert prepare_disk(tmp_path, None).explain_refusal() is not None
    set_free(monkeypatch, 2**20)
    with pytest.raises(StartError, match=r"has 1\.0 MiB free, and the start needs 8 MiB"):
        prepare_disk(tmp_path, None)


def test_a_limit_of_the_data_refuses_new_data_although_the_disk_has_room(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(40 * 2**20))
    with pytest.raises(RequestError, match=r"SKILLBUS_DISK_MAX of 64 MiB, leaves 24\.0 MiB") as refused:
        prepare_disk(tmp_path, 64 * 2**20).check()
    assert refused.value.code is ErrorCode.STORAGE_FULL
    (tmp_path / "file").unlink()
    prepare_disk(tmp_path, 64 * 2**20).check()


@pytest.mark.parametrize("folder", ["sandbox", "nats/store"])
def test_a_folder_that_cannot_be_used_is_named_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    closed = tmp_path / folder
    closed.mkdir(parents=True)
    # root may use every folder, whatever its rights are
    monkeypatch.setattr(os, "access", lambda path, _: path != closed)
    with (
        pytest.raises(StartError, match=re.escape(f"{closed}: Permission denied")) as refused,
        lock_data_directory(tmp_path),
    ):
        pytest.fail("it started")
    assert "\n" not in str(refused.value)


def test_a_file_in_the_place_of_the_directory_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="choose another --data"), lock_data_directory(tmp_path / "file" / "data"):
        pytest.fail("it started")
