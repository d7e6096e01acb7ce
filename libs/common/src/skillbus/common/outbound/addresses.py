"""The one rule for addresses: public ones, and private ones that the operator lists.

Callers register providers and MCP servers, and skills request places. Whoever owns a name controls its addresses, so
every resolved address is judged, and a judged address is the one that is connected to. One refused address refuses the
whole answer of a name: a name that is both public and private is no accident (ADR 0025).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from skillbus.contracts.network import split_place

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK: Final = "127.0.0.0/8, ::1"
"""Entries that open loopback."""
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
_IPV4_COMPATIBLE: Final = range(2, 1 << 32)
"""`::a.b.c.d`, without `::` and `::1`."""
NEVER: Final[tuple[Network, ...]] = (
    IPv4Network("169.254.0.0/16"),
    IPv6Network("fe80::/10"),
    # Metadata services of clouds outside the link-local range: Azure, Alibaba, Oracle, AWS, Google, Scaleway.
    *map(IPv4Network, ("168.63.129.16", "100.100.100.200", "192.0.0.192")),
    *map(IPv6Network, ("fd00:ec2::/32", "fd20:ce::254", "fd00:42::42")),
    # IPv4 addresses inside others, at places that depend on a tunnel or a translator: Teredo, 6to4, SIIT, local NAT64.
    *map(IPv6Network, ("2001::/32", "2002::/16", "::ffff:0:0:0/96", "64:ff9b:1::/48")),
)
"""Networks that no setting opens: link-local ones, metadata services, which hand out credentials, and tunnels."""


class AddressRefusedError(Exception):
    """The rule forbids a connection. The message names the host and the setting, and no resolved address."""


@dataclass(frozen=True, slots=True)
class AddressRule:
    """Rule of one service."""

    networks: tuple[Network, ...] = ()
    """Networks that the operator opened."""
    names: frozenset[str] = frozenset()
    """Host names whose private addresses the operator opened."""
    setting: str = "the private addresses"
    """Name of the setting, for messages."""

    @classmethod
    def parse(cls, text: str, setting: str = "the private addresses") -> "AddressRule":
        """Parse names, addresses and networks such as `ollama, 10.1.2.3, fd12::/32`, separated by commas.

        Raises:
            ValueError: An entry is malformed, or names what no setting opens.
        """
        networks: list[Network] = []
        names: list[str] = []
        for entry in filter(None, map(str.strip, text.split(","))):
            try:
                network = ip_network(entry)
            except ValueError:
                if "/" in entry or ":" in entry:
                    raise
                names.append(split_place(entry, 443)[0])
                continue
            if any(_contains(never, network) for never in NEVER):
                raise ValueError(f"{network} is a link-local network, a tunnel or a metadata service: it stays closed")
            networks.append(network)
        return cls(tuple(networks), frozenset(names), setting)

    def check_host(self, host: str, addresses: Iterable[Address]) -> None:
        """Check all addresses of a host. Raises AddressRefusedError."""
        found = list(addresses)
        if any(is_never_allowed(address) for address in found):
            raise AddressRefusedError(
                f"{host} is or resolves to a link-local address, a tunnel or a cloud's metadata service; no setting "
                "allows that"
            )
        if not all(self.allows(address, host) for address in found):
            raise AddressRefusedError(
                f"{host} is or resolves to an address that is not public; if that is right, list the name, the address "
                f"or its network in {self.setting}"
            )

    def check_local_end(self, host: str, address: Address, own: str) -> None:
        """Raise AddressRefusedError if a connection with the local end `own` stays on this machine unlisted.

        A service that listens on all addresses relies on the firewall, which does not filter local connections.
        """
        ends = [extract_ipv4(end) or end for end in (address, ip_address(own))]
        if ends[0] == ends[1] and not self._is_listed(ends[0], host):
            raise AddressRefusedError(f"{host} resolves to this machine; if that is right, list it in {self.setting}")

    def allows(self, address: Address, host: str = "") -> bool:
        """Return True for a public address, and for one that the operator listed itself or by the name `host`."""
        if is_never_allowed(address):
            return False
        carried = extract_ipv4(address)
        if carried is not None:
            return self.allows(carried, host)
        return is_public(address) or self._is_listed(address, host)

    def _is_listed(self, address: Address, host: str) -> bool:
        return host.lower().removesuffix(".") in self.names or any(address in network for network in self.networks)


def is_never_allowed(address: Address) -> bool:
    """Return True for an address that no setting opens."""
    if isinstance(address, IPv6Address) and (address.scope_id is not None or int(address) in _IPV4_COMPATIBLE):
        return True  # a scope is an interface of this machine
    carried = extract_ipv4(address)
    if carried is not None:
        return is_never_allowed(carried)
    return any(address in network for network in NEVER)


def is_public(address: Address) -> bool:
    """Return True for an address that is routed on the internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _UNICAST_V6 and not any(address in network for network in _SPECIAL_V6)


def read_address(place: tuple[object, ...]) -> Address:
    """Return the address of a place as `getaddrinfo` returns it, with its scope."""
    address = ip_address(str(place[0]))
    if isinstance(address, IPv6Address) and address.scope_id is None and len(place) == 4 and place[3]:
        return IPv6Address(f"{address}%{place[3]}")
    return address


def extract_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address inside an IPv6 one (mapped, or NAT64), None if there is none."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _contains(outer: Network, inner: Network) -> bool:
    if isinstance(outer, IPv4Network):
        return isinstance(inner, IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and inner.subnet_of(outer)
