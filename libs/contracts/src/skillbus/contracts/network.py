"""Places on a network, by exact host and port, as skills ask for them and operators approve them."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Final

from pydantic import AfterValidator, Field

PLACES_MAX: Final = 32
"""Of one skill."""

PLACE_MAX: Final = 300
"""Characters of one."""
_HOST_MAX: Final = 253
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*", re.ASCII)
"""The last label of a host that resolvers read as an address, in one of its odd forms."""
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def split_place(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Host and port of `host:port`, the host as it is compared: lower case, by IDNA 2003 in ASCII, no dot at the end.

    An address is one in its canonical form, IPv6 in brackets; 2130706433 and 127.1 are nothing.

    Raises:
        ValueError: It is no such place; the message says how one is written.
    """
    if len(text) > PLACE_MAX:
        raise ValueError(f"{_shown(text)} is too long for host:port")
    host, port = _split(text)
    if not port and default_port is not None:
        return _normal_host(host), default_port
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError(f"{_shown(text)} names no port from 1 to 65535: write host:port")
    return _normal_host(host), int(port)


def join_place(host: str, port: int) -> str:
    """What `split_place` takes apart."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def normalize_place(text: str) -> str:
    """`text` as it is compared: two names of one place are equal. Raises ValueError, as `split_place` does."""
    return join_place(*split_place(text))


NetworkPlace = Annotated[
    str, Field(max_length=PLACE_MAX, examples=["api.example.org:443"]), AfterValidator(normalize_place)
]
"""`host:port`, exact: no pattern, no path."""


def _split(text: str) -> tuple[str, str]:
    if not text.startswith("["):
        host, _, port = text.partition(":")
        return host, port
    host, bracket, rest = text[1:].partition("]")
    if not bracket or ":" not in host or (rest and not rest.startswith(":")):
        raise ValueError(f"{_shown(text)} is no address in brackets with a port: write [2001:db8::1]:443")
    return host, rest[1:]


def _normal_host(host: str) -> str:
    if ":" in host:
        return _canonical(host, IPv6Address)
    try:
        ascii_host = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise ValueError(f"{_shown(host)} is no host name") from None
    labels = ascii_host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _canonical(ascii_host, IPv4Address)
    if len(ascii_host) > _HOST_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{_shown(host)} is no host name: one exact name, no pattern, no scheme and no path")
    return ascii_host


def _canonical(host: str, kind: type[IPv4Address] | type[IPv6Address]) -> str:
    try:
        address = kind(host)
    except ValueError:
        raise ValueError(f"{_shown(host)} is no address: write it in full") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{_shown(host)} names an interface of this machine: write an address without %")
    return str(address)


def _shown(text: str) -> str:
    return ascii(text[:80])
