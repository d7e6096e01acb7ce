"""Access rules of requests: which caller a request comes from, and which requests are refused.

With an owner's key, every request carries it, an API key, or the cookie of a session that one of them has begun, except
probes and the API documentation. A browser sends a cookie also with requests that a foreign page makes it send, so
writes with a cookie need a token that only the pages of the gateway can read. Without a key the
gateway listens on loopback only, where the browser of its user is the one way in for strangers. So the Host header must
be a loopback name (otherwise a foreign name that resolves to 127.0.0.1 would do), and pages of other origins may not
change anything.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import ApiKeyRecord
from skillbus.contracts.gateway.sessions import CSRF_HEADER
from skillbus.gateway.domain.access.api_key import KeyText, parse_key
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.principal import LOCAL_USER, OWNER, OpenSession, Principal
from skillbus.gateway.domain.access.session import SessionCookie, SessionRing, SessionText
from skillbus.gateway.domain.access.startup import is_loopback

_OPEN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/login"})
_OPEN_FOLDERS: Final = ("/docs/", "/assets/")
_READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Visit:
    """Parts of a request that decide about access. Absent headers are None."""

    method: str
    path: str
    host: str | None = None
    origin: str | None = None
    authorization: str | None = field(default=None, repr=False)
    cookie: str | None = field(default=None, repr=False)
    csrf_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Access rule: the owner's key and API keys, or loopback if there is no owner's key."""

    owner_digest: bytes | None = field(default=None, repr=False)
    """SHA-256 of the owner's key."""
    keys: KeyRing = field(default_factory=KeyRing, repr=False, compare=False)
    sessions: SessionRing = field(default_factory=SessionRing, repr=False, compare=False)
    session_cookie: SessionCookie = field(default=SessionCookie(is_secure=False))
    note_use: Callable[[str], None] = field(default=lambda _: None, repr=False, compare=False)
    """Called with the id of each API key that let a request in."""

    @property
    def needs_key(self) -> bool:
        """True if requests need a key."""
        return self.owner_digest is not None

    def authenticate(self, visit: Visit) -> Principal | None:
        """Return the caller of a request; None for what anybody may read.

        Raises:
            RequestError: `unauthorized`, `forbidden`, or `unavailable` while the keys are not known yet.
        """
        if self.owner_digest is None:
            _check_local(visit)
            return LOCAL_USER
        if is_open_path(visit.path):
            return None
        if visit.authorization is None and visit.cookie is not None:
            text = self.session_cookie.parse_header(visit.cookie)
            if text is not None:
                return self._find_session(text, visit)
        scheme, _, given = (visit.authorization or "").partition(" ")
        given = given.strip()
        if scheme.lower() != "bearer":
            raise _refuse("Send a key in the header `Authorization: Bearer <key>`.")
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).digest()
        # Both digests have the same length, so the time of the comparison reveals nothing about the key.
        if hmac.compare_digest(digest, self.owner_digest):
            return OWNER
        return self._find_key(parse_key(given))

    def _find_key(self, text: KeyText | None) -> Principal:
        if text is None:
            raise _refuse("This is not a key of this server: send one in the header `Authorization: Bearer <key>`.")
        record = self.keys.find_current(text.id)
        if record is None or not text.matches_hash(record.secret_sha256):
            raise _refuse("This is not a key of this server: it was removed, or it belongs to another server.")
        return self._admit_key(record)

    def _find_session(self, text: SessionText, visit: Visit) -> Principal:
        record = self.sessions.find_current(text.id)
        key_hash = None if record is None else self.find_key_hash(record.key_id)
        if record is None or key_hash is None or not text.matches_verifier(record.verifier, key_hash):
            raise _refuse("This is not a session of this server: log in again.")
        if record.revoked_at is not None or record.expires_at <= datetime.now(UTC):
            raise _refuse("The session has ended: log in again.")
        principal = self.find_principal(record.key_id)
        csrf_token = text.make_csrf_token()
        given = (visit.csrf_token or "").encode("utf-8", "surrogateescape")
        if visit.method not in _READ_METHODS and not hmac.compare_digest(given, csrf_token.encode()):
            raise RequestError(
                ErrorCode.FORBIDDEN,
                f"A change with the cookie of a session needs its token in the header `{CSRF_HEADER}`: "
                "`GET /api/session` returns it as `csrf_token`.",
            )
        return replace(principal, session=OpenSession(record.id, record.expires_at, csrf_token))

    def find_principal(self, key_id: str) -> Principal:
        """Return the caller with the rights of a key, for a session or a login link that the key made.

        Raises:
            RequestError: `unauthorized` if the key has ended, `unavailable` while the keys are not known yet.
        """
        if key_id == OWNER.name:
            return OWNER
        key = self.keys.find_current(key_id)
        if key is None:
            raise _refuse("The key of this session was removed: log in again.")
        return self._admit_key(key)

    def find_key_hash(self, key_id: str) -> bytes | None:
        """Return the hash of the owner's key or of an API key; None if there is no such key.

        Raises:
            RequestError: `unavailable` while the keys are not known yet.
        """
        if key_id == OWNER.name:
            return self.owner_digest
        record = self.keys.find_current(key_id)
        return None if record is None else record.secret_sha256.encode()

    def _admit_key(self, record: ApiKeyRecord) -> Principal:
        now = datetime.now(UTC)
        if record.revoked_at is not None:
            raise _refuse(f"The key {record.id} was revoked: ask for another one.")
        if record.expires_at is not None and record.expires_at <= now:
            raise _refuse(f"The key {record.id} has expired: ask for another one.")
        if not self.keys.trace_lineage(record).is_usable(now):
            raise _refuse(f"The key {record.id} has ended with the key that made it: ask for another one.")
        self.note_use(record.id)
        return Principal(record.id, record.role, frozenset(record.projects), expires_at=record.expires_at)


def is_open_path(path: str) -> bool:
    """Return True for probes, documentation, the login and the files of pages.

    They hold no data, and a browser sends no key when it opens a page.
    """
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


def _refuse(message: str) -> RequestError:
    return RequestError(ErrorCode.UNAUTHORIZED, message)


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
