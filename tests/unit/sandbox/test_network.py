"""Which addresses a run may be connected to."""

from ipaddress import ip_address

import pytest
from pydantic import ValidationError

from skillbus.sandbox.domain.egress_policy import METADATA, HostPort, is_reachable, parse_networks
from skillbus.sandbox.settings import SandboxSettings


@pytest.mark.parametrize("text", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_an_address_of_the_internet_can_be_reached(text: str) -> None:
    assert is_reachable(ip_address(text), ())


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
def test_an_address_of_any_other_network_cannot(text: str) -> None:
    assert not is_reachable(ip_address(text), ())


def test_a_network_that_an_operator_names_can_be_reached_and_no_other() -> None:
    networks = parse_networks("127.0.0.0/8, fd12:3456::/32")
    for inside in ("127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd12:3456::1"):
        assert is_reachable(ip_address(inside), networks)
    for outside in ("10.0.0.1", "::1", "fd12:3457::1", "fd12:3456::1%eth0"):
        assert not is_reachable(ip_address(outside), networks)


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
def test_no_network_that_an_operator_names_opens_the_credentials_of_a_cloud(address: str) -> None:
    assert not is_reachable(ip_address(address), parse_networks("0.0.0.0/0, ::/0"))


def test_a_network_with_bits_of_a_host_is_refused() -> None:
    with pytest.raises(ValueError, match="host bits"):
        parse_networks("127.0.0.1/8")


def test_an_operator_opens_private_networks_by_a_setting_that_is_read_at_the_start() -> None:
    assert SandboxSettings().egress.private_networks == ()
    opened = SandboxSettings(private_networks="10.1.0.0/16, ::1/128", network_mib=2).egress
    assert is_reachable(ip_address("10.1.2.3"), opened.private_networks)
    assert opened.bytes_max == 2 * 1024 * 1024
    with pytest.raises(ValidationError):
        SandboxSettings(private_networks="10.1.0.0/99")


def test_two_names_of_one_place_are_equal() -> None:
    assert HostPort.parse("Example.ORG.:443") == HostPort("example.org", 443)
    assert str(HostPort.parse("[2001:db8:0::1]:443")) == "[2001:db8::1]:443"
