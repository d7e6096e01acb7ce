"""What of the network a run may reach: exact places, and of what they resolve to, only addresses of the internet.

A name is the skill's wish and an operator's word; what it resolves to is up to whoever holds the name. So each answer
is judged, after it came, and the judged address is the one that is connected to.
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
"""All that is routed on the internet; loopback, unique local, link-local, site-local and multicast are outside."""
# Within it: protocols' own (Teredo, benchmarks, ORCHID), documentation twice, and 6to4, which carries any IPv4 address.
_SPECIAL_V6: Final = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are an IPv4 address, which is the one that counts."""
# Where clouds hand out credentials: AWS, ECS and EKS, Google, Azure's wire server (of the internet, by its number),
# Alibaba, Oracle, Tencent and Scaleway. No setting opens them.
METADATA: Final[frozenset[Address]] = frozenset(
    {
        *map(IPv4Address, ("169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200")),
        *map(IPv4Address, ("192.0.0.192", "169.254.0.23", "169.254.42.42")),
        *map(IPv6Address, ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42")),
    }
)


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A place, its host as `skillbus.contracts.network` writes it: two of one place are equal."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> "HostPort":
        """From `host:port`. Raises ValueError when it is none."""
        return cls(*split_place(text, default_port))

    def __str__(self) -> str:
        return join_place(self.host, self.port)


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Bounds of what one run may send and receive, over all its connections."""

    private_networks: tuple[Network, ...] = ()
    """Networks that are open although they are none of the internet: an operator's own services."""
    bytes_max: int = 64 * MIB
    """Both ways together."""
    connections_at_once: int = 16
    """More wait."""
    connections_max: int = 1024
    """In all, the refused ones among them."""
    head_bytes: int = 16 * 1024
    """Of a request's first line and headers."""
    head_s: float = 10.0
    """For them to arrive, however they trickle."""
    connect_s: float = 10.0
    """For resolving and connecting together."""
    idle_s: float = 30.0
    """Without a byte either way."""
    connection_s: float = 600.0
    """Of one connection."""


class Verdict(StrEnum):
    """What became of a connection, as the log has it."""

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


class Outside(Protocol):
    """The network of the host."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """What `host`, a name or an address, resolves to now. Raises OSError when it does not."""
        ...

    async def connect(self, address: Address, port: int, head_bytes: int) -> Connection:
        """A TCP connection to exactly this address. Raises OSError when there is none."""
        ...


def parse_networks(text: str) -> tuple[Network, ...]:
    """Networks like `127.0.0.0/8`, separated by commas. Raises ValueError when one is none."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def is_reachable(address: Address, private_networks: Sequence[Network]) -> bool:
    """Whether a run may be connected to `address`: one of the internet, or of a network that is open by name."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False  # an interface's own network, which no setting can name
    carried = carried_v4(address)
    if carried is not None:
        return is_reachable(carried, private_networks)
    if address in METADATA:
        return False
    return _is_public(address) or any(address in network for network in private_networks)


def is_own(address: Address, own: str, private_networks: Sequence[Network]) -> bool:
    """Whether a connection to `address` has not left this machine, whose end of it is `own`, and was not meant to stay.

    What listens on all addresses of a machine trusts its firewall, which does not stand between it and itself.
    """
    return str(address) == own and not any(address in network for network in private_networks)


def carried_v4(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for: mapped, or behind NAT64."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _UNICAST_V6 and not any(address in network for network in _SPECIAL_V6)
