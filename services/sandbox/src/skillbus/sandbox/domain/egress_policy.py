"""Network access of a run: exact places, and only public addresses behind them.

A skill requests a name and an operator approves it, but the owner of the name controls its addresses. So every resolved
address is checked, and the checked address is the one that is connected to.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, Protocol

from skillbus.contracts.network import join_place, split_place
from skillbus.sandbox.domain.run.limits import MIB

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# IANA's registries of special-purpose addresses; 192.88.99.0/24 was 6to4's, 240.0.0.0/4 ends in the broadcast address.
_SPECIAL_V4: Final = tuple(
    IPv4Network(text)
    for text in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ]
)
_UNICAST_V6: Final = IPv6Network("2000::/3")
"""Addresses routed on the internet; loopback, unique local, link-local, site-local and multicast lie outside."""
# Special ranges within it: protocol assignments (Teredo, benchmarks, ORCHID), documentation twice, and 6to4.
_SPECIAL_V6: Final = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are the IPv4 address that counts."""
# Cloud metadata services, which hand out credentials: AWS, ECS and EKS, Google, Azure (a public address), Alibaba,
# Oracle, Tencent and Scaleway. No setting opens them.
METADATA: Final[frozenset[Address]] = frozenset(
    {
        *map(IPv4Address, ("169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200")),
        *map(IPv4Address, ("192.0.0.192", "169.254.0.23", "169.254.42.42")),
        *map(IPv6Address, ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42")),
    }
)


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

    private_networks: tuple[Network, ...] = ()
    """Private networks that the operator opened, for example for internal services."""
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


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse networks like `127.0.0.0/8`, separated by commas. Raises ValueError if one is malformed."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def is_reachable(address: Address, private_networks: Sequence[Network]) -> bool:
    """Return True if a run may connect to `address`: a public one, or one in an opened network."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False  # link-local on one interface, which no setting can name
    carried = extract_ipv4(address)
    if carried is not None:
        return is_reachable(carried, private_networks)
    if address in METADATA:
        return False
    if any(address in network for network in private_networks):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _UNICAST_V6 and not any(address in network for network in _SPECIAL_V6)


def is_own_machine(address: Address, own: str, private_networks: Sequence[Network]) -> bool:
    """Return True if a connection to `address` with the local end `own` stays on this machine without permission.

    A service that listens on all addresses relies on the firewall, which does not filter local connections.
    """
    return str(address) == own and not any(address in network for network in private_networks)


def extract_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address inside an IPv6 one (mapped, or NAT64), None if there is none."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped
