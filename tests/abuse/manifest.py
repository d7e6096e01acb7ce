"""What each payload must come to, and with which limit raised it gets through."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.domain.limits import MIB


@dataclass(frozen=True, slots=True)
class Abuse:
    """A payload of `payloads/`, bounded by its own arguments as well."""

    payload: str
    argv: tuple[str, ...]
    ends_by: RunStatus
    limits: Mapping[str, int]
    """Those under which it must be ended."""
    weakened: Mapping[str, int]
    """Those under which it must get through: else this test could not fail."""
    prints: bytes
    """What it says when it gets through."""


ABUSES: Final = (
    Abuse("socket_hoard.py", ("6", "1.5"), RunStatus.MEMORY, {}, {"sockets": 10_000}, b"\n"),
    Abuse(
        "page_tables.js",
        ("40000", "1"),
        RunStatus.MEMORY,
        {"memory_bytes": 128 * MIB},
        {"memory_bytes": 512 * MIB},
        b"held 40000",
    ),
)
