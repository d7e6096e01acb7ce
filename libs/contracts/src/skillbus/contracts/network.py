"""Network places: exact host and port, as skills request them and operators approve them."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Final

from pydantic import AfterValidator, Field

PLACES_MAX: Final = 32
"""Most places of one skill."""
PLACE_MAX: Final = 300
"""Longest place, in characters."""
_HOST_MAX: Final = 253
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*", re.ASCII)
"""Last label of a host that resolvers read as an IPv4 address in an unusual notation."""
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def split_place(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Return host and port of `host:port`, with the host in canonical form.

    A host name is returned in lower case and ASCII (IDNA 2003), without a trailing dot. An address must be in its
    canonical form, IPv6 in brackets; other notations such as 2130706433 and 127.1 are refused.

    Raises:
        ValueError: The text is not a place. The message says how to write one.
    """
    if len(text) > PLACE_MAX:
        raise ValueError(f"{_quote(text)} is too long for host:port")
    host, _, port = text.partition(":")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in host or (rest and not rest.startswith(":")):
            raise ValueError(f"{_quote(text)} is not an address in brackets with a port: write [2001:db8::1]:443")
        port = rest[1:]
    if not port and default_port is not None:
        return _normalize_host(host), default_port
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError(f"{_quote(text)} has no port from 1 to 65535: write host:port")
    return _normalize_host(host), int(port)


def join_place(host: str, port: int) -> str:
    """Return `host:port`, the inverse of `split_place`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def normalize_place(text: str) -> str:
    """Return the canonical form of a place: two spellings of one place become equal. Raises ValueError."""
    return join_place(*split_place(text))


NetworkPlace = Annotated[
    str, Field(max_length=PLACE_MAX, examples=["api.example.org:443"]), AfterValidator(normalize_place)
]
"""Exact `host:port`, without a pattern or a path."""


def _normalize_host(host: str) -> str:
    if ":" in host:
        return _normalize_address(host, IPv6Address)
    try:
        ascii_host = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise ValueError(f"{_quote(host)} is not a host name") from None
    labels = ascii_host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _normalize_address(ascii_host, IPv4Address)
    if len(ascii_host) > _HOST_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{_quote(host)} is not a host name: write one exact name without pattern, scheme or path")
    return ascii_host


def _normalize_address(host: str, kind: type[IPv4Address] | type[IPv6Address]) -> str:
    try:
        address = kind(host)
    except ValueError:
        raise ValueError(f"{_quote(host)} is not an address: write it in full") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{_quote(host)} names a network interface of this machine: write the address without %")
    return str(address)


def _quote(text: str) -> str:
    return ascii(text[:80])
