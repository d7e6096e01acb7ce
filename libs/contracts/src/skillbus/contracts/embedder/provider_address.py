"""Addresses of providers, and references to their keys."""

import re
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, StringConstraints

from skillbus.contracts.message import WITHOUT_NUL

_ENVIRONMENT_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_A_BASE_URL: Final = re.compile(r"[\s\x00-\x20\x7f?#\\]")


def _check_base_url(value: str) -> str:
    if not value:
        return value
    try:
        parts = urlsplit(value)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # not chained: it quotes its input, which may contain a key
        is_usable = False
    if not is_usable:
        raise ValueError("is not an address like https://api.example.com/v1")
    if "@" in parts.netloc or _NOT_IN_A_BASE_URL.search(value):
        raise ValueError("contains a user, a query, a fragment or white space: give keys by reference in api_key")
    return value.rstrip("/")


def _check_reference(value: str) -> str:
    kind, _, place = value.partition(":")
    if value and (kind not in {"env", "file"} or not place):
        raise ValueError("is not a reference: give env:NAME or file:PATH, never the key itself")
    if kind == "env" and not _ENVIRONMENT_VARIABLE.fullmatch(place):
        raise ValueError("does not name an environment variable: give env:NAME, never the key itself")
    return value


BaseUrl = Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL, AfterValidator(_check_base_url)]
"""Address without user, query and fragment, so that it cannot contain a key."""
SecretReference = Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL, AfterValidator(_check_reference)]
"""Reference to a key: `env:NAME`, an environment variable of the service that calls the provider, or `file:PATH`. Keys
are never stored."""
