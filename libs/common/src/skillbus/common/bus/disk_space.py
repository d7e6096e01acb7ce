"""Room for new data, on the disk of a directory or in JetStream, and the refusal of new data when there is none."""

import errno
import json
import os
from pathlib import Path
from typing import Final, Protocol

from nats.aio.client import Client

from skillbus.contracts.errors import ErrorCode, RequestError

KEEP_FREE_BYTES: Final = 32 * 2**20
"""New data is refused while less than this is free. What was accepted can then be finished and read, and the vector
store, which writes to mapped files, does not meet a full disk: the kernel would end the process with SIGBUS."""
MIB: Final = 2**20

_INFO_TIMEOUT_S: Final = 2.0
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class StorageRoom(Protocol):
    """Room for new data."""

    def explain_refusal(self, more_bytes: int = 0) -> str | None:
        """Return why `more_bytes` of new data are refused, or None if they fit."""

    def check(self, more_bytes: int = 0) -> None:
        """Raise RequestError with `storage_full` if there is no room for `more_bytes` of new data."""


class DiskSpace:
    """Room for new data in a directory, on its disk and below an optional limit."""

    def __init__(self, directory: Path, *, limit_bytes: int | None = None, name: str = "the data directory") -> None:
        self._directory = directory
        self._name = name
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
        place = f"the disk of {self._name}"
        if self._limit_bytes is not None:
            place += f", or SKILLBUS_DISK_MAX of {self._limit_bytes // MIB} MiB,"
        return _describe(place, free_bytes, needed_bytes)

    def check(self, more_bytes: int = 0) -> None:
        """Raise RequestError with `storage_full` if there is no room for `more_bytes` of new data."""
        _refuse(self.explain_refusal(more_bytes))


class JetStreamRoom:
    """Room for new data below the file limit of JetStream's account, and on the disk of NATS if this process sees it.

    It answers from the last measurement. Without one, or without a limit, NATS refuses what does not fit.
    """

    def __init__(self, client: Client, api: str, disk: DiskSpace | None = None) -> None:
        """Make the room of the JetStream whose API has the subjects `<api>.…`."""
        self._client = client
        self._subject = f"{api}.INFO"
        self._disk = disk
        self._used_bytes = self._limit_bytes = 0

    async def measure(self) -> None:
        """Ask NATS for the limit and what is used. Raises NatsError or TimeoutError."""
        reply = json.loads((await self._client.request(self._subject, timeout=_INFO_TIMEOUT_S)).data)
        self._used_bytes = int(reply.get("storage", 0))
        self._limit_bytes = int(reply.get("limits", {}).get("max_storage", 0))

    def read_free(self) -> int:
        """Return the bytes below the limit that were free at the last measurement."""
        return self._limit_bytes - self._used_bytes

    def explain_refusal(self, more_bytes: int = 0) -> str | None:
        """Return why `more_bytes` of new data are refused, or None if they fit."""
        if self._disk is not None and (reason := self._disk.explain_refusal(more_bytes)):
            return reason
        free_bytes, needed_bytes = self.read_free(), KEEP_FREE_BYTES + more_bytes
        if self._limit_bytes <= 0 or free_bytes >= needed_bytes:
            return None
        return _describe(f"JetStream's file limit of {self._limit_bytes // MIB} MiB", free_bytes, needed_bytes)

    def check(self, more_bytes: int = 0) -> None:
        """Raise RequestError with `storage_full` if there is no room for `more_bytes` of new data."""
        _refuse(self.explain_refusal(more_bytes))


def is_disk_full(error: Exception) -> bool:
    """Return True for the error of a write to a full disk, or beyond a quota."""
    return isinstance(error, OSError) and error.errno in _FULL


def _describe(place: str, free_bytes: int, needed_bytes: int) -> str:
    return (
        f"{place} leaves {max(free_bytes, 0) / MIB:.1f} MiB, and new data needs {needed_bytes / MIB:.1f} MiB: "
        "free some space; what is stored can be read and removed"
    )


def _refuse(reason: str | None) -> None:
    if reason:
        raise RequestError(ErrorCode.STORAGE_FULL, f"{reason[0].upper()}{reason[1:]}.")


def _sum_blocks(directory: Path) -> int:
    total_bytes = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                total_bytes += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - half the time
            except FileNotFoundError:  # removed meanwhile
                continue
    return total_bytes
