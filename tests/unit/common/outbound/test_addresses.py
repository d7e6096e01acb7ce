"""Which addresses are connected to, and which never."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.common.outbound.addresses import (
    LOOPBACK,
    NEVER,
    Address,
    AddressRefusedError,
    AddressRule,
    is_never_allowed,
    is_public,
    read_address,
)

CLOSED = AddressRule()
ALL_LISTED = AddressRule.parse("0.0.0.0/0, ::/0, example.org")

FORBIDDEN_V4 = st.ip_addresses(network="169.254.0.0/16") | st.sampled_from(
    ["168.63.129.16", "100.100.100.200", "192.0.0.192"]
).map(IPv4Address)
NOT_PUBLIC_V4 = st.sampled_from(
    ["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/4"]
).flatmap(lambda network: st.ip_addresses(network=network))
PUBLIC_V4 = st.ip_addresses(v=4).filter(
    lambda address: address.is_global and not address.is_multicast and is_public(address)
)


def mapped(address: IPv4Address) -> IPv6Address:
    return IPv6Address(0xFFFF << 32 | int(address))


def nat64(address: IPv4Address) -> IPv6Address:
    return IPv6Address(int(IPv6Address("64:ff9b::")) | int(address))


def tunnels(address: IPv4Address) -> list[IPv6Address]:
    """The address inside others, at every place where a tunnel or a translator has it."""
    number = int(address)
    return [
        IPv6Address(0x2002 << 112 | number << 80 | 1),  # 6to4
        IPv6Address(0x20010000 << 96 | number << 64 | 0xF227),  # Teredo's server
        IPv6Address(0x20010000 << 96 | (number ^ 0xFFFFFFFF)),  # Teredo's client
        IPv6Address(0xFFFF << 48 | number),  # SIIT
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | number),  # NAT64 of a local prefix
    ]


def notations(address: IPv4Address) -> list[str]:
    """All that resolvers read as this IPv4 address."""
    number = int(address)
    one, two, three, four = address.packed
    return [
        str(address),
        str(number),
        hex(number),
        f"0{number:o}",
        f"{one}.{number & 0xFFFFFF}",
        f"{one}.{two}.{number & 0xFFFF}",
        f"0{one:o}.0x{two:x}.{three}.0{four:o}",
        f"0x{one:02X}.0{two:o}.{three << 8 | four}",
    ]


def resolve(text: str) -> list[Address]:
    """The addresses of a host without a name, as the system's resolver reads it."""
    found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [read_address(entry[4]) for entry in found]


@given(address=PUBLIC_V4)
def test_a_public_address_is_allowed_however_it_is_written(address: IPv4Address) -> None:
    assert CLOSED.allows(address)
    assert CLOSED.allows(mapped(address))
    assert CLOSED.allows(nat64(address))
    for text in notations(address):
        CLOSED.check_host(text, resolve(text))


@given(address=NOT_PUBLIC_V4)
def test_any_other_is_refused_in_every_notation_and_in_every_carrier_until_it_is_listed(address: IPv4Address) -> None:
    for text in notations(address):
        with pytest.raises(AddressRefusedError):
            CLOSED.check_host(text, resolve(text))
    listed = AddressRule.parse(str(address))
    for carrier in (address, mapped(address), nat64(address)):
        assert not CLOSED.allows(carrier)
        assert listed.allows(carrier)
    for tunnel in tunnels(address):
        assert not CLOSED.allows(tunnel)
        assert not listed.allows(tunnel)


@given(address=FORBIDDEN_V4)
def test_link_local_and_metadata_addresses_are_refused_in_every_form_whatever_is_listed(address: IPv4Address) -> None:
    for text in notations(address):
        with pytest.raises(AddressRefusedError, match="no setting"):
            ALL_LISTED.check_host(text, resolve(text))
    compatible = IPv6Address(int(address))
    carriers: list[Address] = [address, mapped(address), nat64(address), compatible, *tunnels(address)]
    for carrier in carriers:
        assert is_never_allowed(carrier)
        assert not ALL_LISTED.allows(carrier, "example.org")


@given(address=st.sampled_from(NEVER).flatmap(lambda network: st.ip_addresses(network=str(network))))
def test_no_setting_opens_a_network_that_stays_closed(address: Address) -> None:
    assert not ALL_LISTED.allows(address, "example.org")


@given(address=st.ip_addresses(v=6), scope=st.sampled_from(["lo", "eth0", "1", "12"]))
def test_an_address_with_a_scope_is_refused_whatever_is_listed(address: IPv6Address, scope: str) -> None:
    assert not ALL_LISTED.allows(IPv6Address(f"{address}%{scope}"), "example.org")


def test_a_scope_that_a_resolver_returns_beside_the_address_counts() -> None:
    assert read_address(("fd12::1", 443, 0, 3)) == IPv6Address("fd12::1%3")
    assert read_address(("fd12::1", 443, 0, 0)) == IPv6Address("fd12::1")
    assert read_address(("10.0.0.1", 443)) == IPv4Address("10.0.0.1")


@given(public=st.lists(PUBLIC_V4, min_size=1, max_size=3), other=NOT_PUBLIC_V4 | FORBIDDEN_V4, at=st.integers(0, 3))
def test_a_name_with_public_and_other_addresses_is_refused(
    public: list[IPv4Address], other: IPv4Address, at: int
) -> None:
    CLOSED.check_host("example.org", public)
    with pytest.raises(AddressRefusedError):
        CLOSED.check_host("example.org", [*public[:at], other, *public[at:]])


@given(address=st.ip_addresses())
def test_what_is_never_allowed_is_not_allowed(address: Address) -> None:
    assert not (is_never_allowed(address) and ALL_LISTED.allows(address))
    assert is_never_allowed(address) or ALL_LISTED.allows(address) or address.version == 6


@pytest.mark.parametrize("text", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_an_address_of_the_internet_is_allowed(text: str) -> None:
    assert CLOSED.allows(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.1.2.3", "172.16.0.1", "172.31.255.255"),
        *("192.168.1.1", "169.254.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255", "100.100.100.200"),
        *("192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
        *("239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
        *("::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1"),
        *("2001:db8::1", "3fff::1", "2001::1", "2001:10::1", "2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "100::1", "5f00::1", "fe80::1%lo"),
    ],
)
def test_an_address_of_any_other_network_is_not(text: str) -> None:
    assert not CLOSED.allows(ip_address(text))


def test_a_network_that_an_operator_lists_is_allowed_and_no_other() -> None:
    rule = AddressRule.parse("127.0.0.0/8, fd12:3456::/32")
    for inside in ("127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd12:3456::1"):
        assert rule.allows(ip_address(inside))
    for outside in ("10.0.0.1", "::1", "fd12:3457::1", "fd12:3456::1%eth0"):
        assert not rule.allows(ip_address(outside))


def test_a_name_that_an_operator_lists_may_have_private_addresses_and_no_other_name() -> None:
    rule = AddressRule.parse("ollama1, Models.Example.ORG.")
    for name in ("ollama1", "OLLAMA1", "models.example.org", "models.example.org."):
        assert rule.allows(ip_address("10.0.0.1"), name)
    for name in ("ollama", "x.models.example.org", "example.org", ""):
        assert not rule.allows(ip_address("10.0.0.1"), name)


def test_the_refusal_names_the_setting_and_not_the_address() -> None:
    rule = AddressRule.parse("", "SKILLBUS_X_PRIVATE_ADDRESSES")
    with pytest.raises(AddressRefusedError, match="SKILLBUS_X_PRIVATE_ADDRESSES") as caught:
        rule.check_host("inner.example", [ip_address("10.20.30.40")])
    assert "10.20.30.40" not in str(caught.value)


def test_the_entries_of_loopback_open_loopback_alone() -> None:
    rule = AddressRule.parse(LOOPBACK)
    assert rule.allows(ip_address("127.0.0.1"))
    assert rule.allows(ip_address("::1"))
    assert not rule.allows(ip_address("10.0.0.1"))
    assert not rule.allows(ip_address("0.0.0.0"))


@pytest.mark.parametrize(
    "entry",
    ["127.0.0.1/8", "10.1.0.0/99", "127.1", "2130706433", "fe80::1%eth0", "ollama:80", "a b", "http://x", "*.org"],
)
def test_an_entry_that_is_malformed_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        AddressRule.parse(f"10.0.0.0/8, {entry}")


@pytest.mark.parametrize(
    "entry", ["169.254.0.0/16", "169.254.169.254", "fe80::/64", "100.100.100.200", "fd00:ec2::254"]
)
def test_an_entry_that_stays_closed_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="stays closed"):
        AddressRule.parse(entry)


def test_a_public_address_of_this_machine_is_refused_until_it_is_listed() -> None:
    address = ip_address("93.184.216.34")
    with pytest.raises(AddressRefusedError, match="this machine"):
        CLOSED.check_local_end("example.org", address, "93.184.216.34")
    with pytest.raises(AddressRefusedError, match="this machine"):
        CLOSED.check_local_end("example.org", ip_address(f"::ffff:{address}"), f"::ffff:{address}")
    CLOSED.check_local_end("example.org", address, "10.0.0.7")
    AddressRule.parse("93.184.216.0/24").check_local_end("example.org", address, "93.184.216.34")
    AddressRule.parse("example.org").check_local_end("example.org", address, "93.184.216.34")
