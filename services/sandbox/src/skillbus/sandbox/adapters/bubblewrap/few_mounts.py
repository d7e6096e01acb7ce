"""A mount namespace with few mounts, from which a service that is root starts its sandboxes.

Bubblewrap reads the machine's whole table of mounts for each folder and each device that it binds, and the kernel
copies and later drops every mount for each sandbox: among fifty mounts that took 3 of the 7 ms of its processor time.
Nothing is shown to a sandbox that was not before: of what it binds, and of what lies on top of that, every mount stays,
as every mount of /proc does, since one there may hide something. All others are let go of.

Nobody can enter it but the superuser. Where it cannot be made, sandboxes are started among all mounts.
"""

import os
import re
import select
import stat
import subprocess
import sys
import weakref
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Final, Self

from skillbus.sandbox.adapters import inside
from skillbus.sandbox.adapters.bubblewrap.installation import Installation

_WITHIN_S: Final = 10.0
_DEVICES: Final = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""That bubblewrap's `--dev` binds."""
_PROC: Final = PurePosixPath("/proc")
_POINT: Final = 4
"""Of the fields of a line of mountinfo; source: proc(5)."""
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


class FewMountsError(Exception):
    """It cannot be made here, and why."""


class FewMounts:
    """The namespace, held open until it is closed or nobody knows it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._let_go = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, host: Installation, folder: Path) -> Self:
        """Make it; folders of runs can be bound from within `folder`. Blocking: some 50 ms.

        Raises:
            FewMountsError: It cannot be made.
        """
        if host.nsenter is None:
            raise FewMountsError("nsenter is missing: it is in util-linux")
        if _gains_privileges(host.bwrap):  # which is kept from it by `setpriv --no-new-privs` alone
            raise FewMountsError(f"{host.bwrap} gains privileges when it is started")
        passed = (*_DEVICES, folder.resolve())
        points = detachable(Path("/proc/self/mountinfo").read_bytes(), tuple(_bound(host)), passed)
        with as_file(files(inside).joinpath("detach_mounts.py")) as program:
            return cls(_namespace_of([sys.executable, "-I", "-S", str(program), *map(os.fsdecode, points)]))

    @property
    def path(self) -> str:
        """Where `nsenter` finds it; nothing that is started inherits it."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def close(self) -> None:
        """Let go of it. Safe to call again."""
        self._let_go()


def detachable(mountinfo: bytes, bound: tuple[Path, ...], passed: tuple[Path, ...]) -> list[bytes]:
    """Mount points that are neither on the way to these folders nor in what is bound, those on top first.

    Args:
        mountinfo: As the kernel tells it.
        bound: Shown with all that is mounted in them.
        passed: Only these themselves must be there.
    """
    wanted = (*bound, *passed)
    points = [_ESCAPED.sub(_character, line.split(b" ")[_POINT]) for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if not _stays(PurePosixPath(os.fsdecode(point)), bound, wanted)]


def _stays(point: PurePosixPath, bound: tuple[Path, ...], wanted: tuple[Path, ...]) -> bool:
    return (
        point.is_relative_to(_PROC)
        or any(path.is_relative_to(point) for path in wanted)
        or any(point.is_relative_to(path) for path in bound)
    )


def _character(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 8)])


def _bound(host: Installation) -> Iterator[Path]:
    for folder in (*host.folders, host.python_prefix, "/etc/ld.so.cache", host.bwrap.parent):
        if folder is not None:
            yield Path(folder)
            yield Path(folder).resolve()


def _gains_privileges(program: Path) -> bool:
    changes_user = program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    return bool(changes_user) or "security.capability" in os.listxattr(program)


def _namespace_of(argv: list[str]) -> int:
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}
    ) as process:
        said = select.poll()
        if process.stdout is not None:
            said.register(process.stdout, select.POLLIN)
        try:
            if said.poll(1000 * _WITHIN_S) and process.stdout is not None and process.stdout.read(1):
                return os.open(f"/proc/{process.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            _, words = process.communicate(timeout=_WITHIN_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FewMountsError(str(error)) from error
        finally:
            process.kill()
    raise FewMountsError(words.decode(errors="replace").strip())
