"""The files of a layer, once they are there: regular files and folders, within bounds, that nobody writes to."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillbus.sandbox.domain.errors import DependenciesUnavailable
from skillbus.sandbox.domain.limits import MIB

ENTRIES_MAX: Final = 100_000
"""Files and folders of a layer; those of a large web framework are some 30,000."""
_BLOCK: Final = 4096
"""What a file takes at least, on most file systems."""


def settle(root: Path, bytes_max: int) -> int:
    """Make every file of a layer readable to all and writable to none; returns the bytes that it takes.

    Raises:
        DependenciesUnavailable: when it holds a link or a special file, or is too large.
    """
    size = 0
    for entries, entry in enumerate(_entries(root), start=1):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            os.chmod(entry.path, 0o755)  # noqa: PTH101, S103 - a Path for each of thousands costs more than the rest
        elif stat.S_ISREG(mode):
            os.chmod(entry.path, 0o555 if mode & stat.S_IXUSR else 0o444)  # noqa: PTH101
        else:
            raise DependenciesUnavailable(f"a package brings a link or a special file: {Path(entry.path).name!r}")
        size += _size(entry)
        check_size(entries, size, bytes_max)
    root.chmod(0o755)
    return size


def check_size(entries: int, size: int, bytes_max: int) -> None:
    """Whether so many files of so many bytes may be a layer.

    Raises:
        DependenciesUnavailable: when they may not.
    """
    if size > bytes_max:
        raise DependenciesUnavailable(
            f"the packages take more than {bytes_max // MIB} MiB, the limit (SKILLBUS_SANDBOX_LAYER_MIB)"
        )
    if entries > ENTRIES_MAX:
        raise DependenciesUnavailable(f"the packages have more than {ENTRIES_MAX} files, the limit")


def measure(root: Path) -> tuple[int, int]:
    """Entries below `root` and the bytes that they take, while others write there; a file of two names counts once."""
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


def discard(folder: Path) -> None:
    """Remove a folder: out of the way at once, so that another can take its name, then bit by bit."""
    gone = folder.with_name(f".{folder.name.lstrip('.')}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


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
