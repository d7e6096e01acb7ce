"""Files of a layer: regular files and folders, bounded in number and size, and read-only."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillbus.sandbox.domain.errors import DependenciesUnavailable

ENTRIES_MAX: Final = 100_000
"""Most files and folders of a layer; a large web framework has some 30,000."""
_BLOCK: Final = 4096
"""Smallest disk usage of a file on most file systems."""


def seal_layer(root: Path, bytes_max: int) -> int:
    """Make every file of a layer readable by all and writable by none. Return the bytes that it takes.

    Raises DependenciesUnavailable if the layer has a link or a special file, or is too large.
    """
    size = 0
    for entries, entry in enumerate(_entries(root), start=1):
        mode = entry.stat(follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise DependenciesUnavailable(f"a package contains a link or a special file: {Path(entry.path).name!r}")
        _own(entry.path, mode)
        size += _size(entry)
        check_size(entries, size, bytes_max)
    _own(str(root), stat.S_IFDIR)
    return size


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


def _own(path: str, mode: int) -> None:
    """Change owner and mode through a descriptor: the writer may still run and replace the name by a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o755 if stat.S_ISDIR(mode) else 0o555 if mode & stat.S_IXUSR else 0o444)
    finally:
        os.close(descriptor)


def _size(entry: "os.DirEntry[str]") -> int:
    return -(-entry.stat(follow_symlinks=False).st_size // _BLOCK) * _BLOCK


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
