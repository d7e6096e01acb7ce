"""Run in a container by the probe: exits 0 only if the walls stand, and then says which interpreters there are.

Read as a file, never imported.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PR_GET_NO_NEW_PRIVS = 39
CLONE_NEWUSER = 0x10000000


def refuses(attempt: Callable[[], object]) -> bool:
    """Whether the kernel refuses it."""
    try:
        attempt()
    except OSError:
        return True
    return False


def capabilities() -> int:
    """Those that this process has, or could come to have."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        sets = [line.split() for line in file if line.startswith("Cap")]
    return sum(int(words[1], 16) for words in sets)


def no_new_privileges() -> bool:
    """Whether a program with a setuid bit gives none."""
    return bool(ctypes.CDLL(None).prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)


def check(known: set[str]) -> dict[str, bool]:
    """Each wall, and whether it stands; `known` is the environment that may be there."""
    return {
        "the process is not root": os.getuid() != 0 and os.geteuid() != 0,
        "it has no capability": capabilities() == 0,
        "it cannot gain any": no_new_privileges(),
        "it is not among the engine's processes": os.getppid() == 1,
        "the agent is closed to it": refuses(lambda: os.open("/proc/1/mem", os.O_RDWR)),
        "the root folder is read-only": refuses(lambda: os.mkdir("/probe")),  # noqa: PTH102
        "the network is closed": refuses(lambda: socket.socket(socket.AF_INET).close()),
        "namespaces are closed": ctypes.CDLL(None).unshare(CLONE_NEWUSER) != 0,
        "the environment is clean": set(os.environ) <= known,
    }


def interpreters() -> dict[str, str]:
    """Languages of skills, and where their interpreters are."""
    names = {"python": ("python3",), "node": ("node", "nodejs"), "bash": ("bash",)}
    found = {language: [path for path in map(shutil.which, each) if path] for language, each in names.items()}
    return {language: paths[0] for language, paths in found.items() if paths}


if __name__ == "__main__":
    fallen = [wall for wall, stands in check(set(sys.argv[1:]) | {"PWD", "LC_CTYPE"}).items() if not stands]
    if fallen:
        sys.exit("not so: " + "; ".join(fallen))
    for line in ("isolated", *(f"{language} {path}" for language, path in interpreters().items())):
        sys.stdout.write(f"{line}\n")
