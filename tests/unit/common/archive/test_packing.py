"""Packing folders: the same files give the same bytes."""

import os
from pathlib import Path

import pytest

from skillbus.common.archive import (
    ArchiveError,
    ArchiveLimits,
    PackedFile,
    open_archive,
    pack_directory,
    pack_files,
)
from skillbus.common.archive.errors import TooLargeError


def folder(root: Path, order: tuple[str, ...]) -> Path:
    for name in order:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def test_the_same_files_give_the_same_bytes_whenever_they_were_written(tmp_path: Path) -> None:
    first = folder(tmp_path / "1", ("SKILL.md", "scripts/a.py", "运行.txt"))
    second = folder(tmp_path / "2", ("运行.txt", "scripts/a.py", "SKILL.md"))
    os.utime(second / "SKILL.md", (1, 1))
    (second / "SKILL.md").chmod(0o600)

    assert pack_directory(first) == pack_directory(second)


def test_an_executable_bit_is_kept(tmp_path: Path) -> None:
    (folder(tmp_path, ("run.sh",)) / "run.sh").chmod(0o700)

    (entry,) = open_archive(pack_directory(tmp_path)).entries

    assert entry.executable


def test_a_packed_folder_extracts_to_the_same_files(tmp_path: Path) -> None:
    source, target = folder(tmp_path / "s", ("SKILL.md", "a/b/c.txt", "运行.txt")), tmp_path / "t"
    target.mkdir()

    open_archive(pack_directory(source)).extract_to(target)

    assert pack_directory(target) == pack_directory(source)


def test_junk_and_skipped_names_do_not_change_the_bytes(tmp_path: Path) -> None:
    before = pack_directory(folder(tmp_path, ("SKILL.md", "d/.vectorized")))

    folder(tmp_path, (".vectorized", ".DS_Store", "d/.DS_Store", "__MACOSX/x"))

    assert pack_directory(tmp_path, skip={".vectorized"}) == before


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda root: (root / "link").symlink_to("/etc/passwd"), "symlink"),
        (lambda root: (root / "link").symlink_to(root), "symlink"),
        (lambda root: os.mkfifo(root / "fifo"), "special_file"),
        (lambda root: (root / "a\\b").write_text("x"), "unsafe_path"),
        (lambda root: (root / "A").write_text("x"), "duplicate_entry"),
        (lambda root: Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("x"), "encoding"),
        (lambda root: (root / "big").write_bytes(bytes(2001)), "too_large"),
        (lambda root: [(root / f"f{n}").write_text("") for n in range(9)], "too_large"),
    ],
)
def test_what_an_archive_may_not_hold_is_refused_in_a_folder_too(tmp_path: Path, make: object, code: str) -> None:
    folder(tmp_path, ("a",))
    assert callable(make)
    make(tmp_path)

    with pytest.raises(ArchiveError) as caught:
        pack_directory(tmp_path, ArchiveLimits(file_bytes=2000, entries=8))

    assert caught.value.code.value == code


def test_files_over_the_limit_of_an_archive_are_refused() -> None:
    with pytest.raises(TooLargeError):
        pack_files([PackedFile("a", bytes(5000))], ArchiveLimits(archive_bytes=4096))
