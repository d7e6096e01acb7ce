"""Run in the sandbox by the probe: exits 0 only if the walls stand. Read as a file, never imported."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS = 21, 23, 39
CAPABILITY_VERSION = 0x20080522
"""Source of all: prctl(2), capget(2)."""
LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int = 0) -> int:
    """What the kernel says of this process."""
    return int(LIBC.prctl(option, argument, 0, 0, 0))


def in_bounding_set(capability: int) -> bool:
    """Whether a program could bring it; not of those that the kernel does not know."""
    return prctl(PR_CAPBSET_READ, capability) == 1


def capabilities() -> int:
    """All of this process's, effective, permitted or inheritable."""
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION), (ctypes.c_uint32 * 6)()
    if LIBC.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    return sum(sets)


def refuses(attempt: Callable[[], None], *errors: int) -> bool:
    """Whether `attempt` fails with one of `errors`."""
    try:
        attempt()
    except OSError as error:
        return error.errno in errors
    return False


def unshare_user() -> None:
    """A new user namespace, from which the kernel's attack surface opens."""
    if LIBC.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def open_socket() -> None:
    """A way out of the machine."""
    socket.socket(socket.AF_INET).close()


def open_process_1() -> None:
    """To read its memory, or to write into it."""
    os.close(os.open("/proc/1/mem", os.O_RDWR))


def filter_of_process_1() -> str | None:
    """As /proc tells it: 2 is a filter; None where there is no /proc."""
    try:
        lines = Path("/proc/1/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)["Seccomp"]


def check(known: set[str]) -> dict[str, bool]:
    """Each wall, and whether it stands; `known` is the environment that may be there."""
    return {
        "the process is not root": os.getuid() != 0,
        "it is not among the host's processes": os.getppid() == 0,  # its agent is in no namespace that it sees
        "it has no capability": capabilities() == 0,
        "it cannot gain any": prctl(PR_GET_NO_NEW_PRIVS) == 1 and not any(map(in_bounding_set, range(64))),
        "system calls are filtered": prctl(PR_GET_SECCOMP) == 2,
        "process 1 is filtered as well": filter_of_process_1() in {"2", None},
        "process 1 is closed to it": refuses(open_process_1, errno.EACCES, errno.ENOENT),
        "the root folder is read-only": refuses(Path("/probe").mkdir, errno.EROFS),
        "the skill's folder is read-only": refuses(Path("/skill/probe").mkdir, errno.EROFS),
        "/dev is read-only": refuses(Path("/dev/probe").mkdir, errno.EROFS),
        "the host's files are not there": not any(map(os.path.exists, ("/root", "/home", "/var", "/etc/shadow"))),
        "the network is closed": refuses(open_socket, errno.EAFNOSUPPORT),
        "namespaces are closed": refuses(unshare_user, errno.EPERM),
        "the environment is clean": set(os.environ) <= known,
    }


if __name__ == "__main__":
    fallen = [wall for wall, stands in check(set(sys.argv[1].split(","))).items() if not stands]
    print("not so: " + "; ".join(fallen) if fallen else "isolated", file=sys.stderr if fallen else sys.stdout)
    sys.exit(len(fallen) > 0)
