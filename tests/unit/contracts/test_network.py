"""Places on a network: exact, and written in one way."""

import pytest
from pydantic import BaseModel, ValidationError

from skillbus.contracts.network import NetworkPlace, join_place, normalize_place, split_place


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("api.example.org:443", "api.example.org", 443),
        ("API.Example.Org.:443", "api.example.org", 443),
        ("münchen.de:80", "xn--mnchen-3ya.de", 80),
        ("数据.example:8443", "xn--vxup8b.example", 8443),
        ("db:5432", "db", 5432),
        ("192.0.2.7:80", "192.0.2.7", 80),
        ("[2001:DB8:0:0::1]:443", "2001:db8::1", 443),
    ],
)
def test_a_place_is_compared_by_its_ascii_name_and_its_port(text: str, host: str, port: int) -> None:
    assert split_place(text) == (host, port)
    assert split_place(join_place(host, port)) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":443", "example.org", "example.org:", "example.org:0", "example.org:65536", "example.org:4x3"),
        *("example.org:https", "example.org:+443", "example.org:443:443", "example.org: 443", "example.org:４４３"),
        *("*:443", "*.example.org:443", "example.org:*", "exa mple.org:443", "example.org\n:443", "a..b:443"),
        *("http://example.org:443", "example.org/path:443", "user@example.org:443", "example.org:443/", "-a.org:443"),
        *("127.1:80", "2130706433:80", "0x7f000001:80", "0177.0.0.1:80", "1.2.3.4.5:80", "1.2.3.256:80"),
        *("::1:80", "[::1]", "[::1]80", "[::1", "[fe80::1%eth0]:80", "[example.org]:80", f"{'a' * 64}.org:443"),
        *(f"{'a.' * 127}org:443", f"{'ü' * 100_000}.org:443"),
    ],
)
def test_what_is_no_exact_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|port|address|place"):
        split_place(text)


def test_a_place_without_a_port_has_the_default_one_where_there_is_one() -> None:
    assert split_place("example.org", 80) == ("example.org", 80)
    assert split_place("[2001:db8::1]", 80) == ("2001:db8::1", 80)


def test_a_message_carries_places_as_they_are_compared() -> None:
    class Wish(BaseModel):
        place: NetworkPlace

    assert Wish(place="Example.ORG:443").place == normalize_place("example.org.:443")
    with pytest.raises(ValidationError):
        Wish(place="*.example.org:443")
