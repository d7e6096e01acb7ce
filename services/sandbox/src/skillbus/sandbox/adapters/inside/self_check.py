"""Self-check that the probe runs in the sandbox: exits 0 only if every wall holds. Never imported by the service."""

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
"""Sources: prctl(2), capget(2)."""
LIBC = ctypes.CDLL(None, use_errno=True)


def ask_kernel(option: int, argument: int = 0) -> int:
    """Return the result of prctl(2) for this process."""
    return int(LIBC.prctl(option, argument, 0, 0, 0))


def read_capabilities() -> int:
    """Return 0 if this process has no effective, permitted or inheritable capability."""
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION), (ctypes.c_uint32 * 6)()
    if LIBC.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    return sum(sets)


def refuses(attempt: Callable[[], object], *errors: int) -> bool:
    """Return True if `attempt` fails with one of `errors`."""
    try:
        attempt()
    except OSError as error:
        return error.errno in errors
    return False


def unshare_user() -> None:
    """Create a user namespace, which would open most of the kernel's attack surface."""
    if LIBC.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def read_init_filter() -> str | None:
    """Return the seccomp mode of process 1 from /proc, 2 for a filter; None without /proc."""
    try:
        lines = Path("/proc/1/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)["Seccomp"]


def check_walls(known: set[str]) -> dict[str, bool]:
    """Return each wall and True if it holds. `known` are the environment variables that are allowed."""
    # Numbers of capabilities that the kernel does not know give an error, not 1.
    gainable = [number for number in range(64) if ask_kernel(PR_CAPBSET_READ, number) == 1]
    return {
        "the process is not root": os.getuid() != 0,
        "it is not among the host's processes": os.getppid() == 0,  # its agent is in another process namespace
        "it has no capability": read_capabilities() == 0,
        "it cannot gain any": ask_kernel(PR_GET_NO_NEW_PRIVS) == 1 and not gainable,
        "system calls are filtered": ask_kernel(PR_GET_SECCOMP) == 2,
        "process 1 is filtered as well": read_init_filter() in {"2", None},
        "process 1 is closed to it": refuses(lambda: os.open("/proc/1/mem", os.O_RDWR), errno.EACCES, errno.ENOENT),
        "the root folder is read-only": refuses(Path("/probe").mkdir, errno.EROFS),
        "the skill's folder is read-only": refuses(Path("/skill/probe").mkdir, errno.EROFS),
        "/dev is read-only": refuses(Path("/dev/probe").mkdir, errno.EROFS),
        "the host's files are not there": not any(map(os.path.exists, ("/root", "/home", "/var", "/etc/shadow"))),
        "the network is closed": refuses(lambda: socket.socket(socket.AF_INET).close(), errno.EAFNOSUPPORT),
        "namespaces are closed": refuses(unshare_user, errno.EPERM),
        "the environment is clean": set(os.environ) <= known,
    }


if __name__ == "__main__":
    fallen = [wall for wall, stands in check_walls(set(sys.argv[1].split(","))).items() if not stands]
    print("not so: " + "; ".join(fallen) if fallen else "isolated", file=sys.stderr if fallen else sys.stdout)
    sys.exit(len(fallen) > 0)
