"""Finds the part of the cgroup tree that is delegated to this service.

Only a part that its owner has delegated is used: systemd marks it (`Delegate=yes`) or gives it to the user; a container
with its own cgroup namespace has it as its root. A service that is root could write anywhere in the tree, but must not:
systemd would undo it, and it would undo the settings of others.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

SERVICE: Final = "skillbus-service"
"""Cgroup below the delegated one into which the service moves itself; its parent stays the delegated one."""
_SELF: Final = Path("/proc/self")
_MARKS: Final = ("user.delegate", "trusted.delegate")
"""Extended attributes. The second can be read by root only. Source: systemd's `src/core/cgroup.c`."""


class NotDelegatedError(Exception):
    """No usable part of the cgroup tree is delegated; the message says why and what to do."""


def find_delegated(self_folder: Path = _SELF) -> Path:
    """Return the folder of this process's cgroup if it is delegated. `self_folder` is the process's folder in /proc.

    Raises:
        NotDelegatedError: It is not delegated.
    """
    group = _read_own_group(self_folder).removesuffix(f"/{SERVICE}") or "/"
    folder = _locate_group(group, self_folder)
    if not (folder / "cgroup.events").exists():
        raise NotDelegatedError(
            f"{folder} is the root of the machine's own tree: start the service in a unit of its own"
        )
    if group != "/" and not _is_marked(folder) and not _starts_ownership(folder):
        raise NotDelegatedError(f"{folder} is not delegated: start the service with systemd's Delegate=yes")
    return folder


def _read_own_group(self_folder: Path) -> str:
    for line in (self_folder / "cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::")
    raise NotDelegatedError("this kernel has cgroups of version 1 only")


def _locate_group(group: str, self_folder: Path) -> Path:
    """Return the folder of `group` below a cgroup2 mount, which may show a part of the tree only.

    Source of the format: proc_pid_mountinfo(5). White space in paths is escaped in octal.
    """
    for line in (self_folder / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, mounted = (
                re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path) for path in left.split()[3:5]
            )
            if Path(group).is_relative_to(root):
                return Path(mounted, Path(group).relative_to(root))
    raise NotDelegatedError("no mount of the cgroup tree visible to this process has its cgroup")


def _is_marked(folder: Path) -> bool:
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    return False


def _starts_ownership(folder: Path) -> bool:
    """Return True if the user owns `folder` but not its parent: users cannot read the mark of an older systemd."""
    return os.geteuid() != 0 and folder.stat().st_uid == os.geteuid() != folder.parent.stat().st_uid
