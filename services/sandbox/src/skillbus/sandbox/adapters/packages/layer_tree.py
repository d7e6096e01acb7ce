"""Files of a layer: regular files and folders, bounded in number and size, and read-only."""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.sandbox.domain.errors import DependenciesUnavailable

ENTRIES_MAX: Final = 100_000
"""Most files and folders of a layer; a large web framework has some 30,000."""
_DEPTH_MAX: Final = 128
"""Most folders in one another: each holds a descriptor while it is sealed."""
_BLOCK: Final = 4096
"""Smallest disk usage of a file on most file systems."""


def seal_layer(root: Path, bytes_max: int, builder: int) -> int:
    """Make every file of a layer readable by all and writable by none. Return the bytes that it takes.

    `builder` is the user who wrote it. Descriptors lead from each folder to what is in it, and each folder is owned
    before it is listed, so that nobody can put a link in the place of a file or folder.

    Raises:
        DependenciesUnavailable: The layer has a link, a special file or a file of another user, or is too large.
    """
    seal = _LayerSeal(bytes_max, builder)
    seal.seal_entry(None, str(root), _DEPTH_MAX)
    return seal.size


@dataclass(slots=True)
class _LayerSeal:
    """Entries of one layer, as far as they are sealed."""

    bytes_max: int
    builder: int
    entries: int = -1
    """Without the root folder."""
    size: int = 0

    def seal_entry(self, folder: int | None, name: str, depth: int) -> None:
        """Seal a file, or a folder and all that is in it. `folder` is the descriptor of the folder that has it."""
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        is_folder = stat.S_ISDIR(found.st_mode)
        if not is_folder and (folder is None or not stat.S_ISREG(found.st_mode)):
            raise _refuse(name, "a link or a special file")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_DIRECTORY if is_folder else 0)
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != self.builder or (not is_folder and found.st_nlink != 1):
                raise _refuse(name, "a file of another user, or one with another name elsewhere")
            _own(descriptor, found.st_mode)
            if folder is not None:
                self.size += _round_up(found.st_size)
            self.entries += 1
            check_size(self.entries, self.size, self.bytes_max)
            if is_folder:
                if depth == 0:
                    raise _refuse(name, f"folders in one another, more than {_DEPTH_MAX}")
                for inner in os.listdir(descriptor):  # noqa: PTH208 - by descriptor
                    self.seal_entry(descriptor, inner, depth - 1)
        finally:
            os.close(descriptor)


def _refuse(name: str, reason: str) -> DependenciesUnavailable:
    return DependenciesUnavailable(f"a package contains {reason}: {Path(name).name!r}")


def check_size(entries: int, size: int, bytes_max: int) -> None:
    """Check the number of entries and the size of a layer. Raises DependenciesUnavailable if one is over its limit."""
    if size > bytes_max:
        raise DependenciesUnavailable("the packages are larger than their limit (SKILLBUS_SANDBOX_LAYER_MIB)")
    if entries > ENTRIES_MAX:
        raise DependenciesUnavailable(f"the packages have more than {ENTRIES_MAX} files, the limit")


def give_folder(root: Path, user: int) -> None:
    """Make `user` the owner of a folder and everything in it."""
    os.chown(root, user, user)
    for entry in _entries(root):
        os.chown(entry.path, user, user, follow_symlinks=False)


def measure_folder(root: Path) -> tuple[int, int]:
    """Return the number of entries below `root` and their bytes. Others may write there; hard links count once."""
    entries = size = 0
    seen = set[int]()
    for entry in _entries(root):
        try:
            inode = entry.inode()
            entries += 1
            if inode not in seen:
                seen.add(inode)
                size += _size(entry)
        except FileNotFoundError:
            continue
    return entries, size


def discard_folder(folder: Path) -> None:
    """Remove a folder: rename it first, so that its name is free at once, then delete it."""
    gone = folder.with_name(f".{folder.name.lstrip('.')}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _own(descriptor: int, mode: int) -> None:
    os.fchown(descriptor, os.geteuid(), os.getegid())
    os.fchmod(descriptor, 0o755 if stat.S_ISDIR(mode) else 0o555 if mode & stat.S_IXUSR else 0o444)


def _size(entry: "os.DirEntry[str]") -> int:
    return _round_up(entry.stat(follow_symlinks=False).st_size)


def _round_up(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _entries(root: Path) -> Iterator["os.DirEntry[str]"]:
    todo = [str(root)]
    while todo:
        try:
            with os.scandir(todo.pop()) as listed:
                for entry in listed:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except FileNotFoundError:
            continue
