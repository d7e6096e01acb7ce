"""Addresses that a run may be connected to, as the sandbox is set."""

from ipaddress import ip_address

import pytest
from pydantic import ValidationError

from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.settings import SandboxSettings


def test_an_operator_opens_private_networks_by_a_setting_that_is_read_at_the_start() -> None:
    closed = SandboxSettings().egress.addresses
    assert (closed.networks, closed.names) == ((), frozenset())
    opened = SandboxSettings(private_addresses="10.1.0.0/16, ::1/128", network_mib=2).egress
    assert opened.addresses.allows(ip_address("10.1.2.3"))
    assert opened.bytes_max == 2 * 1024 * 1024
    with pytest.raises(ValidationError):
        SandboxSettings(private_addresses="10.1.0.0/99")


def test_two_names_of_one_place_are_equal() -> None:
    assert HostPort.parse("Example.ORG.:443") == HostPort("example.org", 443)
    assert str(HostPort.parse("[2001:db8:0::1]:443")) == "[2001:db8::1]:443"
