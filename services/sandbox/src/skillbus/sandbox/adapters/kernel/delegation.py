"""The part of the cgroup tree that was given to this service, if one was.

Only a part that its owner gave away is used: systemd marks it (`Delegate=yes`), or makes it the user's own; a container
with a cgroup namespace of its own has it as its root. A service that is root could write anywhere in the tree, and must
not: systemd would undo it, and what others set would be undone.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

SERVICE: Final = "skillbus-service"
"""The cgroup below a delegated one that the service has moved itself to: the one above is still what was delegated."""
_SELF: Final = Path("/proc/self")
_MARKS: Final = ("user.delegate", "trusted.delegate")
"""Source: systemd's `src/core/cgroup.c`; the second is for root's eyes only."""


class NotDelegatedError(Exception):
    """There is no part of the tree for this service, or it cannot be used; the message says which, and what to do."""


def find_delegated(self_folder: Path = _SELF) -> Path:
    """The folder of this process's cgroup, if it was delegated; `self_folder` is its folder of /proc.

    Raises:
        NotDelegatedError: It was not.
    """
    group = _own_group(self_folder).removesuffix(f"/{SERVICE}") or "/"
    folder = _folder_of(group, self_folder)
    if not (folder / "cgroup.events").exists():
        raise NotDelegatedError(
            f"{folder} is the root of the machine's own tree: start the service in a unit of its own"
        )
    if group != "/" and not _is_marked(folder) and not _begins_here(folder):
        raise NotDelegatedError(f"{folder} is not delegated: start the service with systemd's Delegate=yes")
    return folder


def _own_group(self_folder: Path) -> str:
    for line in (self_folder / "cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::")
    raise NotDelegatedError("this kernel has cgroups of version 1 only")


def _folder_of(group: str, self_folder: Path) -> Path:
    """Where the tree is mounted, and `group` in it; a mount may show a part of the tree only."""
    for root, mounted in _mounts((self_folder / "mountinfo").read_text()):
        if Path(group).is_relative_to(root):
            return Path(mounted, Path(group).relative_to(root))
    raise NotDelegatedError("the tree of cgroups is not mounted where this process can see it")


def _mounts(mountinfo: str) -> Iterator[tuple[str, str]]:
    """Root and mount point of each cgroup2 mount. Source: proc_pid_mountinfo(5); white space in it is in octal."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, mounted = left.split()[3:5]
            yield _plain(root), _plain(mounted)


def _plain(escaped: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), escaped)


def _is_marked(folder: Path) -> bool:
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    return False


def _begins_here(folder: Path) -> bool:
    """Whether the user has this folder, and not the one above: an older systemd's mark is not for users to read."""
    return os.geteuid() != 0 and folder.stat().st_uid == os.geteuid() != folder.parent.stat().st_uid
