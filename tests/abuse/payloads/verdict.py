"""How a payload says what it got through: this module is in every skill of the suite."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    class Canaries(TypedDict):
        """What the harness planted on the host; none of it is the secret itself."""

        folder: str
        secret: str
        unix: str
        abstract: str
        tcp: int
        udp: int
        pid: int
        segment: int
        machine: str


LIBC = ctypes.CDLL(None, use_errno=True)
HELD = (1, 38)
"""EPERM and ENOSYS: the filter's answers. Any other error comes from the kernel's own code behind it."""


def canaries() -> Canaries:
    """What there is to reach for."""
    read: Canaries = json.load(sys.stdin)
    return read


def say(line: str) -> None:
    """One line, whole and at once, whichever process says it."""
    os.write(1, f"{line}\n".encode(errors="backslashreplace"))


def through(what: str) -> None:
    """The wall did not hold."""
    say(f"through: {what}")


def done() -> None:
    """Everything was tried."""
    say("done")


def attempt(what: str, action: Callable[..., object], *arguments: object) -> None:
    """It got through unless `action` is refused."""
    try:
        action(*arguments)
    except (OSError, MemoryError, ValueError):
        return
    through(what)


def call(number: int, *arguments: int) -> tuple[int, int]:
    """A system call by its number: the result, and the error's number."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return result, ctypes.get_errno()


def knock(what: str, number: int, *arguments: int) -> None:
    """A system call got through when anything but the filter answers."""
    result, error = call(number, *arguments)
    if result >= 0 or error not in HELD:
        through(what)


def numbers(x86_64: dict[str, int], aarch64: dict[str, int]) -> dict[str, int]:
    """The numbers of this machine's calls."""
    return aarch64 if os.uname().machine == "aarch64" else x86_64


def processes() -> list[Path]:
    """Every process in sight; none without a /proc."""
    return sorted(Path("/proc").glob("[0-9]*"))
