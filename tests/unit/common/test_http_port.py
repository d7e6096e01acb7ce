"""Why a server cannot listen is told in one line, with the way out."""

import errno
import socket

import pytest

from skillbus.common.http_server import PortInUseError, check_port


def test_a_port_in_use_is_told_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortInUseError) as refused:
        check_port("127.0.0.1", taken.getsockname()[1])
    assert "Address already in use. Stop the process that uses it, or choose another port." in str(refused.value)


def test_an_address_of_another_machine_is_told_with_the_way_out() -> None:
    with pytest.raises(PortInUseError, match=r"such as 127\.0\.0\.1") as refused:
        check_port("192.0.2.1", 0)
    cause = refused.value.__cause__
    assert isinstance(cause, OSError)
    assert cause.errno == errno.EADDRNOTAVAIL
