"""Access rules: which requests the gateway lets in, and when it refuses to start.

With an owner's key, every request must carry it, except probes and the API documentation. Without a key the gateway
listens on loopback only, where the browser of its user is the one way in for strangers. So the Host header must be a
loopback name (otherwise a foreign name that resolves to 127.0.0.1 would do), and pages of other origins may not change
anything.

Errors of the start; errors of requests are the contract's `RequestError`:

GatewayError
├── OwnerKeyRequiredError   the address can be reached by other machines, and there is no key
└── OwnerKeyInvalidError    the key, or the file that should hold it, cannot be used
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from skillbus.contracts.errors import ErrorCode, RequestError

MIN_KEY_CHARACTERS: Final = 16
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"})
_OPEN_FOLDERS: Final = ("/docs/",)
_READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class GatewayError(Exception):
    """Base of this package's errors."""


class OwnerKeyRequiredError(GatewayError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} is not a loopback address, and without an owner's key anyone could use it: "
            "set SKILLBUS_GATEWAY_OWNER_KEY or SKILLBUS_GATEWAY_OWNER_KEY_FILE, or listen on 127.0.0.1"
        )


class OwnerKeyInvalidError(GatewayError):
    """The message never contains the key."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Parts of a request that decide about access. Absent headers are None."""

    method: str
    path: str
    host: str | None = None
    origin: str | None = None
    authorization: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Access rule: the owner's key, or loopback if there is no key."""

    key_digest: bytes | None = None
    """SHA-256 of the owner's key."""

    def check_visit(self, visit: Visit) -> None:
        """Raise RequestError (`unauthorized` or `forbidden`) unless the request may enter."""
        if self.key_digest is None:
            _check_local(visit)
        elif visit.path not in _OPEN_PATHS and not visit.path.startswith(_OPEN_FOLDERS):
            scheme, _, given = (visit.authorization or "").partition(" ")
            digest = hashlib.sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
            # Both digests have the same length, so the time of the comparison reveals nothing about the key.
            if not hmac.compare_digest(digest, self.key_digest) or scheme.lower() != "bearer":
                raise RequestError(
                    ErrorCode.UNAUTHORIZED, "Send the owner's key in the header `Authorization: Bearer <key>`."
                )


def make_access(key: str | None) -> Access:
    """Return the access rule for a key. White space around the key is ignored.

    Raises:
        OwnerKeyInvalidError: The key is too short, or cannot be sent in a header.
    """
    if key is None:
        return Access()
    key = key.strip()
    if len(key) < MIN_KEY_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
        raise OwnerKeyInvalidError(
            f"the owner's key must be {MIN_KEY_CHARACTERS} or more printable ASCII characters without spaces: "
            "make one with `openssl rand -hex 32`"
        )
    return Access(hashlib.sha256(key.encode()).digest())


def check_address(host: str, addresses: Iterable[str], access: Access) -> None:
    """Raise OwnerKeyRequiredError if `host` resolves to an address beyond loopback and there is no key."""
    if access.key_digest is None and not all(is_loopback(address) for address in addresses):
        raise OwnerKeyRequiredError(host)


def is_loopback(host: str) -> bool:
    """Return True if a name or address always means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_local(visit: Visit) -> None:
    try:
        host = urlsplit(f"//{visit.host or ''}").hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise RequestError(
            ErrorCode.FORBIDDEN, "Without an owner's key, only loopback names are served: use http://127.0.0.1."
        )
    if visit.origin is None or visit.method in _READ_METHODS:
        return
    try:
        origin = urlsplit(visit.origin).netloc.lower()
    except ValueError:
        origin = ""
    if origin != (visit.host or "").lower():
        raise RequestError(ErrorCode.FORBIDDEN, "A page of another origin may not change anything here.")
