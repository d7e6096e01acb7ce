"""Who may ask what.

With an owner's key, every request carries it, but for probes and the documentation of the API. Without one the gateway
listens on loopback only, and the browser of the person who runs it is the way in for strangers. So the host must be a
loopback name (else a name of theirs could be made to resolve to 127.0.0.1), and no page of another origin changes
anything.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.domain.errors import OwnerKeyInvalidError, OwnerKeyRequiredError

MIN_KEY_CHARACTERS: Final = 16
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"})
_OPEN_FOLDERS: Final = ("/docs/",)
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Visit:
    """What of a request decides whether it is let in; headers are None when they are absent."""

    method: str
    path: str
    host: str | None = None
    origin: str | None = None
    authorization: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """The rule in force: by the digest of the owner's key, or by loopback when there is none."""

    key_digest: bytes | None = None

    def check(self, visit: Visit) -> None:
        """Let a request in.

        Raises:
            RequestError: `unauthorized` or `forbidden`.
        """
        if self.key_digest is None:
            _check_local(visit)
        elif visit.path not in _OPEN_PATHS and not visit.path.startswith(_OPEN_FOLDERS):
            self._check_key(visit.authorization, self.key_digest)

    def _check_key(self, authorization: str | None, key_digest: bytes) -> None:
        scheme, _, given = (authorization or "").partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
        # Digests are of one length, so that the comparison tells nothing about the key.
        if not hmac.compare_digest(digest, key_digest) or scheme.lower() != "bearer":
            raise RequestError(
                ErrorCode.UNAUTHORIZED, "Send the owner's key in the header `Authorization: Bearer <key>`."
            )


def access_by(key: str | None) -> Access:
    """The rule for a key; surrounding white space is not part of it.

    Raises:
        OwnerKeyInvalidError: It is too short to protect anything, or cannot be sent in a header.
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
    """Refuse to listen for strangers without a key; `addresses` is what `host` resolves to.

    Raises:
        OwnerKeyRequiredError: One of them is not loopback, and there is no key.
    """
    if access.key_digest is None and not all(is_loopback(address) for address in addresses):
        raise OwnerKeyRequiredError(host)


def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_local(visit: Visit) -> None:
    if not is_loopback(_name_of(visit.host or "")):
        raise RequestError(
            ErrorCode.FORBIDDEN, "Without an owner's key only loopback names are served: use http://127.0.0.1."
        )
    if visit.origin is None or visit.method in _READING:
        return
    if _authority_of(visit.origin) != (visit.host or "").lower():
        raise RequestError(ErrorCode.FORBIDDEN, "A page of another origin may not change anything here.")


def _authority_of(origin: str) -> str:
    """Host and port of an Origin header; nothing of `null`."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name_of(host: str) -> str:
    """The name in a Host header: without port, and without the brackets of IPv6."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
