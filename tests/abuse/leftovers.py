"""What is left on the host of a run that has ended."""

import ctypes
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from skillbus.sandbox.adapters.kernel.watchdog import is_ending

FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")
_SEGMENTS = Path("/proc/sysvipc/shm")
_STATUS = 1024
"""Characters of `/proc/PID/status` that have name, parent and user."""

_MOUNT_WORDS = ("newroot", "oldroot", "skillbus", "pytest-")
"""Words in the mount table line of a sandbox: names that bubblewrap uses, folders of skillbus, folders of a test."""
TEST_DISK = "disk-of-a-test"
"""Device name of a disk in memory that another test mounts."""


def list_sandbox_mounts() -> set[str]:
    """Return the lines of the mount table that a sandbox may have added; other processes add and remove lines too."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if any(word in line for word in _MOUNT_WORDS) and TEST_DISK not in line}


@dataclass(frozen=True, slots=True)
class Traces:
    """What may stay, because it was there before."""

    uids: Collection[int]
    """Users of the runs, which no other process has; empty when the service is not root."""
    mounts: frozenset[str] = field(default_factory=lambda: frozenset(list_sandbox_mounts()))
    descriptors: dict[int, int] = field(default_factory=dict)
    """The fewest that were open, by the number of sandboxes that wait."""

    def left(self, known: Collection[int], waiting: int) -> Iterator[str]:
        """Everything else, in words; `known` are processes that are to be there, of so many `waiting` sandboxes."""
        if set(self.processes()) - set(known):
            yield "a process is left"
        if set(list_sandbox_mounts()) - self.mounts:
            yield "a mount is left"
        opened = descriptors()
        if opened > self.descriptors.setdefault(waiting, opened):
            yield "a descriptor is left"
        if len(self.files()) > waiting:
            yield "a file is left"
        if list(self.segments()):
            yield "a segment is left"

    def files(self) -> list[Path]:
        """Folders of runs, and files of their users, where every user may leave one."""
        return [Path(entry.path) for folder in FOLDERS for entry in os.scandir(folder) if _owner(entry) in self.uids]

    def processes(self) -> Iterator[int]:
        """Of the runs' users, but no fork servers; or when we are not root, ours in another process namespace."""
        here = Path("/proc/self/ns/pid").readlink()
        for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - for each case, more than once
            try:
                with open(f"/proc/{pid}/status") as file:  # noqa: PTH123 - the same
                    status = file.read(_STATUS)
                uid = int(status.split("Uid:")[1].split()[0])
                starts = status.split("Name:\t")[1].startswith("python") and f"PPid:\t{os.getpid()}\n" in status
                if (uid in self.uids and not starts) or (
                    uid == os.geteuid() != 0 and Path(f"/proc/{pid}/ns/pid").readlink() != here
                ):
                    yield int(pid)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue

    def inside(self) -> Iterator[int]:
        """Those that live and are in a process namespace of their own: not what only starts a sandbox."""
        here = Path("/proc/self/ns/pid").readlink()
        for pid in self.processes():
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if Path(f"/proc/{pid}/ns/pid").readlink() != here and not is_ending(pid):
                    yield pid

    def segments(self) -> Iterator[int]:
        """Segments of shared memory of the runs' users."""
        for line in _SEGMENTS.read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[7]) in self.uids:
                yield int(fields[1])

    def sweep(self, known: Collection[int]) -> None:
        """End and remove what a weakened sandbox left; nothing when we are not root, since all of it might be ours."""
        for pid in set(self.processes()) - set(known) if self.uids else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for segment in self.segments():
            ctypes.CDLL(None).shmctl(segment, 0, None)


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def _owner(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except FileNotFoundError:
        return -1
