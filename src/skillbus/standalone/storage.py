"""Disk of the data directory: the check at the start, a reserve for a full disk, and the healing of nats-server."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from skillbus.common.background import PeriodicJob
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.disk_space import KEEP_FREE_BYTES, MIB, DiskSpace
from skillbus.common.bus.jetstream_batch import find_closed_streams
from skillbus.common.runner import StartError
from skillbus.contracts.resources import PURGEABLE_STREAMS
from skillbus.standalone.nats_server import NatsServer

_RESERVE: Final = "disk.reserve"
_RESERVE_BYTES: Final = 16 * MIB
_EMPTY_START_BYTES: Final = KEEP_FREE_BYTES + _RESERVE_BYTES + 16 * MIB
"""Free space for the first start: an empty data directory takes 2 MiB."""
_START_BYTES: Final = 8 * MIB
"""Free space, with that of the reserve, for a start with data: logs, lock files and the journals of the databases."""
_WATCH_EVERY_S: Final = 1.0
_HEAL_EVERY_S: Final = 15.0
"""Streams are also checked as soon as a full disk has space again."""
_MEASURE_EVERY_S: Final = 15.0

log = structlog.get_logger(__name__)


class DiskReserve:
    """A file whose space is given up to start on a full disk: to read, and to remove what is not needed."""

    def __init__(self, data: Path) -> None:
        self._path = data / _RESERVE

    def keep(self) -> None:
        """Create the file if it is absent and the disk takes it."""
        if self._path.exists():
            return
        try:
            with self._path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
        except OSError:
            self.release()

    def release(self) -> None:
        """Remove the file if it exists."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def prepare_disk(data: Path, limit_bytes: int | None) -> DiskSpace:
    """Check that the disk has enough space to start, after the release of the reserve if it needs that.

    Raises:
        StartError: The disk has too little free space.
    """
    disk, reserve = DiskSpace(data, limit_bytes=limit_bytes), DiskReserve(data)
    is_empty = not (data / "nats").exists()
    needed_bytes = _EMPTY_START_BYTES if is_empty else _START_BYTES
    if _read_disk(data) < _START_BYTES:
        reserve.release()
    if (free_bytes := _read_disk(data)) < needed_bytes:
        raise StartError(
            f"the disk of {data} has {free_bytes / MIB:.1f} MiB free, and the start needs {needed_bytes // MIB} MiB: "
            "free some space, or choose another --data"
        )
    disk.measure_used()
    return disk


class StorageWatch:
    """Logs when the disk is full and when it is not, keeps the reserve, and restarts a nats-server that stores nothing.

    nats-server closes a stream after a failed write until it is restarted. The restart comes once there is space.
    """

    def __init__(self, disk: DiskSpace, data: Path, bus: Bus, server: NatsServer) -> None:
        self._disk = disk
        self._data = data
        self._reserve = DiskReserve(data)
        self._client = bus.client
        self._server = server
        self._is_full = False
        self._healing = PeriodicJob({"heal_streams": self.heal_streams}, every_s=_HEAL_EVERY_S)
        self.jobs = (
            PeriodicJob({"watch_disk": self.watch_disk}, every_s=_WATCH_EVERY_S),
            self._healing,
            make_measuring_job(disk),
        )

    async def watch_disk(self) -> None:
        reason, was_full = self._disk.explain_refusal(), self._is_full
        self._is_full = reason is not None
        if reason is not None and not was_full:
            log.error("storage_full", reason=reason)
        elif reason is None and was_full:
            log.info("storage_has_room")
            self._healing.retry()
        if _read_disk(self._data) > KEEP_FREE_BYTES + 2 * _RESERVE_BYTES:
            self._reserve.keep()

    async def heal_streams(self) -> None:
        if _read_disk(self._data) < KEEP_FREE_BYTES or not self._client.is_connected:
            return
        if closed := await find_closed_streams(self._client, PURGEABLE_STREAMS):
            log.error("nats_server_restarts", closed_streams=closed)
            await self._server.restart()


def make_measuring_job(disk: DiskSpace) -> PeriodicJob:
    """Return the job that measures how much of its limit a data directory uses."""

    async def measure_data() -> None:
        await asyncio.to_thread(disk.measure_used)

    return PeriodicJob({"measure_data": measure_data}, every_s=_MEASURE_EVERY_S)


def _read_disk(data: Path) -> int:
    disk = os.statvfs(data)
    return disk.f_bavail * disk.f_frsize
