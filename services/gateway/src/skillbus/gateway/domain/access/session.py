"""Sessions of browsers: the text of their cookie, its CSRF token, and the copy in memory.

The cookie has 256 random bits and no part of a key. Its stored verifier depends on the hash of the key that logged in,
so that no session outlives a change of the owner's key.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from skillbus.contracts.gateway.sessions import SessionRecord
from skillbus.gateway.domain.access.record_ring import RecordRing

LANGUAGE_COOKIE: Final = "skillbus-language"
"""Cookie with the language of the pages, which their script sets."""
_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
"""32 bytes are 43 characters of base64url without padding."""


@dataclass(frozen=True, slots=True)
class SessionText:
    """Value of a session's cookie. The secret is in no repr."""

    id: str
    secret: str = field(repr=False)

    def reveal(self) -> str:
        """Return the value of the cookie."""
        return f"{self.id}_{self.secret}"

    def make_verifier(self, key_hash: bytes) -> str:
        """Return what is stored of a session of a key."""
        return hmac.new(self.secret.encode(), b"session" + key_hash, hashlib.sha256).hexdigest()

    def matches_verifier(self, verifier: str, key_hash: bytes) -> bool:
        """Compare with a stored verifier. The time of the comparison tells nothing about it."""
        return hmac.compare_digest(self.make_verifier(key_hash).encode(), verifier.encode())

    def make_csrf_token(self) -> str:
        """Return the token that only who knows the cookie can make."""
        digest = hmac.new(self.secret.encode(), b"csrf", hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """Form of the cookie."""

    is_secure: bool
    """True if browsers reach the gateway by HTTPS and must send the cookie by nothing else."""

    @property
    def name(self) -> str:
        """Name of the cookie. Browsers take one with the prefix from its own host only, and by HTTPS."""
        return "__Host-skillbus-session" if self.is_secure else "skillbus-session"

    def parse_header(self, header: str) -> SessionText | None:
        """Return the session in a header `Cookie`; None if it has none, a malformed one, or two that differ."""
        pairs = (part.strip(" \t").partition("=") for part in header.split(";"))
        values = {value for name, _, value in pairs if name == self.name}
        match = _TEXT.fullmatch(values.pop()) if len(values) == 1 else None
        return None if match is None else SessionText(match[1], match[2])


class SessionRing(RecordRing[SessionRecord]):
    """Sessions by id."""

    def list_usable(self, key_id: str, now: datetime) -> list[SessionRecord]:
        """Return the open sessions of a key, oldest first."""
        found = [it for it in self.records if it.key_id == key_id and it.revoked_at is None and it.expires_at > now]
        return sorted(found, key=lambda it: (it.created_at, it.id))

    def list_ended(self, before: datetime) -> tuple[SessionRecord, ...]:
        """Return the sessions that ended before a time."""
        return tuple(it for it in self.records if min(it.expires_at, it.revoked_at or it.expires_at) < before)


def make_session() -> SessionText:
    """Return a new random session."""
    return SessionText(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))
