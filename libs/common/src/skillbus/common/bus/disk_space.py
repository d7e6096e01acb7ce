"""Free space on the disk of a directory, and the refusal of new data while there is too little of it."""

import errno
import os
from pathlib import Path
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError

KEEP_FREE_BYTES: Final = 32 * 2**20
"""New data is refused while less than this is free. What was accepted can then be finished and read, and the vector
store, which writes to mapped files, does not meet a full disk: the kernel would end the process with SIGBUS."""
MIB: Final = 2**20

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskSpace:
    """Room for new data in a directory, on its disk and below an optional limit."""

    def __init__(self, directory: Path, *, limit_bytes: int | None = None) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._used_bytes = 0

    def measure_used(self) -> None:
        """Measure the files of the directory if it has a limit. It may take a second for a large directory."""
        if self._limit_bytes is not None:
            self._used_bytes = _sum_blocks(self._directory)

    def read_free(self) -> int:
        """Return the free bytes of the disk, or those that the limit leaves if they are fewer."""
        disk = os.statvfs(self._directory)
        free_bytes = disk.f_bavail * disk.f_frsize
        return free_bytes if self._limit_bytes is None else min(free_bytes, self._limit_bytes - self._used_bytes)

    def explain_refusal(self, more_bytes: int = 0) -> str | None:
        """Return why `more_bytes` of new data are refused, or None if they fit."""
        free_bytes, needed_bytes = self.read_free(), KEEP_FREE_BYTES + more_bytes
        if free_bytes >= needed_bytes:
            return None
        place = "the disk of the data directory"
        if self._limit_bytes is not None:
            place += f", or SKILLBUS_DISK_MAX of {self._limit_bytes // MIB} MiB,"
        return (
            f"{place} leaves {max(free_bytes, 0) / MIB:.1f} MiB, and new data needs {needed_bytes / MIB:.1f} MiB: "
            "free some space; what is stored can be read and removed"
        )

    def check(self, more_bytes: int = 0) -> None:
        """Raise RequestError with `storage_full` if there is no room for `more_bytes` of new data."""
        if reason := self.explain_refusal(more_bytes):
            raise RequestError(ErrorCode.STORAGE_FULL, f"{reason[0].upper()}{reason[1:]}.")


def is_disk_full(error: Exception) -> bool:
    """Return True for the error of a write to a full disk, or beyond a quota."""
    return isinstance(error, OSError) and error.errno in _FULL


def _sum_blocks(directory: Path) -> int:
    total_bytes = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                total_bytes += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - half the time
            except FileNotFoundError:  # removed meanwhile
                continue
    return total_bytes
