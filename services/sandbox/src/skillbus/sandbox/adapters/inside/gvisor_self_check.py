"""Self-check that the probe runs in a container: exits 0 only if every wall holds. Never imported by the service."""

from __future__ import annotations

import ctypes
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PR_GET_NO_NEW_PRIVS = 39
CLONE_NEWUSER = 0x10000000


def refuses(attempt: Callable[[], object]) -> bool:
    """Return True if the kernel refuses `attempt`."""
    try:
        attempt()
    except OSError:
        return True
    return False


def read_capabilities() -> int:
    """Return 0 if this process has no capability and can gain none by a program."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        sets = [line.split() for line in file if line.startswith("Cap")]
    return sum(int(words[1], 16) for words in sets)


def check_walls(known: set[str]) -> dict[str, bool]:
    """Return each wall and True if it holds. `known` are the environment variables that are allowed."""
    libc = ctypes.CDLL(None)
    return {
        "the process is not root": os.getuid() != 0 and os.geteuid() != 0,
        "it has no capability": read_capabilities() == 0,
        "it cannot gain any": libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
        "it is not among runsc's processes": os.getppid() == 1,
        "the agent is closed to it": refuses(lambda: os.open("/proc/1/mem", os.O_RDWR)),
        "the root folder is read-only": refuses(lambda: os.mkdir("/probe")),  # noqa: PTH102
        "the network is closed": refuses(lambda: socket.socket(socket.AF_INET).close()),
        "namespaces are closed": libc.unshare(CLONE_NEWUSER) != 0,
        "the environment is clean": set(os.environ) <= known,
    }


if __name__ == "__main__":
    fallen = [wall for wall, stands in check_walls(set(sys.argv[1:]) | {"PWD", "LC_CTYPE"}).items() if not stands]
    print("not so: " + "; ".join(fallen) if fallen else "isolated", file=sys.stderr if fallen else sys.stdout)
    sys.exit(len(fallen) > 0)
