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


def refuses(attempt: Callable[[], None], *errors: int) -> bool:
    """Whether `attempt` fails with one of `errors`."""
    try:
        attempt()
    except OSError as error:
        return error.errno in errors
    return False


def unshare_user() -> None:
    """A new user namespace, from which the kernel's attack surface opens."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def open_socket() -> None:
    """A way out of the machine."""
    socket.socket(socket.AF_INET).close()


def check(known: set[str]) -> dict[str, bool]:
    """Each wall, and whether it stands; `known` is the environment that may be there."""
    return {
        "the process is not root": os.getuid() != 0,
        "it is not among the host's processes": os.getppid() == 1,
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
