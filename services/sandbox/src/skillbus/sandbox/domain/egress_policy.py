"""Network access of a run: exact places, and only allowed addresses behind them (`skillbus.common.outbound`)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from skillbus.common.outbound.addresses import Address, AddressRule
from skillbus.contracts.network import join_place, split_place
from skillbus.sandbox.domain.run.limits import MIB

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """Host and port of a place, normalized by `skillbus.contracts.network`, so that equal places compare equal."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> "HostPort":
        """Parse `host:port`. Raises ValueError if it is malformed."""
        return cls(*split_place(text, default_port))

    def __str__(self) -> str:
        return join_place(self.host, self.port)


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Limits on the traffic of one run, over all its connections."""

    addresses: AddressRule = field(default_factory=AddressRule)
    """Addresses that approved places may have."""
    bytes_max: int = 64 * MIB
    """Bytes in both directions together."""
    connections_at_once: int = 16
    """Concurrent connections; more have to wait."""
    connections_max: int = 1024
    """Connections in total, including refused ones."""
    head_bytes: int = 16 * 1024
    """Size of a request's first line and headers."""
    head_s: float = 10.0
    """Time for these to arrive."""
    connect_s: float = 10.0
    """Time for resolving and connecting together."""
    idle_s: float = 30.0
    """Time without a byte in either direction."""
    connection_s: float = 600.0
    """Lifetime of one connection."""


class EgressVerdict(StrEnum):
    """Outcome of a connection, for the log."""

    ALLOWED = "allowed"
    MALFORMED = "malformed"
    NOT_APPROVED = "not_approved"
    ADDRESS_REFUSED = "address_refused"
    UNRESOLVED = "unresolved"
    UNREACHABLE = "unreachable"
    TOO_MANY = "too_many_connections"
    OVER_BYTES = "over_bytes"
    TIMED_OUT = "timed_out"
    BROKEN = "broken"


class OutsideNetwork(Protocol):
    """Network of the host."""

    async def resolve_host(self, host: str) -> Sequence[Address]:
        """Return the current addresses of a host name or address. Raises OSError if it does not resolve."""

    async def connect(self, address: Address, port: int, head_bytes: int) -> Connection:
        """Open a TCP connection to exactly this address. Raises OSError on failure."""
