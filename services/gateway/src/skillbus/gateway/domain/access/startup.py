"""Rules for the start: when the gateway refuses to serve.

Errors of the start; errors of requests are the contract's `RequestError`:

GatewayError
├── OwnerKeyRequiredError   there is no key, and nobody said that none is wanted, or other machines reach the address
├── TlsRequiredError        other machines reach the address, and keys would cross the network in plain text
├── HostUnknownError        the host has no address
├── TlsFilesInvalidError    the certificate or its private key cannot be used
└── OwnerKeyInvalidError    the key, or the file that should hold it, cannot be used
"""

import hashlib
import ipaddress
from collections.abc import Collection
from typing import Final

MIN_KEY_CHARACTERS: Final = 16


class GatewayError(Exception):
    """Base of this package's errors."""


class OwnerKeyRequiredError(GatewayError):
    def __init__(self, host: str, *, is_local: bool) -> None:
        remedy = "SKILLBUS_GATEWAY_NO_KEY=true" if is_local else "listen on 127.0.0.1"
        cause = "no owner's key is set" if is_local else f"{host} is not a loopback address, and no owner's key is set"
        super().__init__(
            f"{cause}, so that anyone could use it: set SKILLBUS_GATEWAY_OWNER_KEY or SKILLBUS_GATEWAY_OWNER_KEY_FILE, "
            f"or {remedy}"
        )


class TlsRequiredError(GatewayError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} is not a loopback address, and keys would cross the network in plain text: set "
            "SKILLBUS_GATEWAY_TLS_CERTIFICATE and SKILLBUS_GATEWAY_TLS_PRIVATE_KEY, or listen on 127.0.0.1 behind a "
            "TLS proxy, or set SKILLBUS_GATEWAY_TLS_IN_FRONT=true if TLS ends in front of this address"
        )


class HostUnknownError(GatewayError):
    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"cannot find the address of the host {host!r} to listen on ({reason}): use 127.0.0.1")


class TlsFilesInvalidError(GatewayError):
    """The certificate or its key cannot be used. The message says which file and why."""


class OwnerKeyInvalidError(GatewayError):
    """The owner's key cannot be used. The message never contains it."""


def hash_owner_key(key: str | None) -> bytes | None:
    """Return the SHA-256 of the owner's key, or None without a key. White space around the key is ignored.

    Raises:
        OwnerKeyInvalidError: The key is too short, or cannot be sent in a header.
    """
    if key is None:
        return None
    key = key.strip()
    if len(key) < MIN_KEY_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
        raise OwnerKeyInvalidError(
            f"the owner's key must be {MIN_KEY_CHARACTERS} or more printable ASCII characters without spaces: "
            "make one with `openssl rand -hex 32`"
        )
    return hashlib.sha256(key.encode()).digest()


def check_address(
    host: str, addresses: Collection[str], *, has_key: bool, without_key: bool = False, has_tls: bool = False
) -> bool:
    """Return True if `host`, which resolves to `addresses`, is this machine alone.

    Refuse to serve it where strangers could use it or read keys.

    Raises:
        OwnerKeyRequiredError: There is no key, and the address is not loopback or `without_key` is not set.
        TlsRequiredError: The address is not loopback, and neither the gateway nor anything in front of it does TLS.
    """
    is_local = bool(addresses) and all(is_loopback(address) for address in addresses)
    if not has_key and not (is_local and without_key):
        raise OwnerKeyRequiredError(host, is_local=is_local)
    if not is_local and not has_tls:
        raise TlsRequiredError(host)
    return is_local


def is_loopback(host: str) -> bool:
    """Return True if a name or address always means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
