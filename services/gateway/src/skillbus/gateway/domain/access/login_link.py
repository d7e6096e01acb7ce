"""Links that log a browser in, once, so that nobody has to type a key."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from urllib.parse import urlencode

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.sessions import LoginLink, LoginLinkRecord, SessionRecord
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.principal import LOCAL_USER, Principal
from skillbus.gateway.domain.access.session import SessionText
from skillbus.gateway.domain.access.session_registry import SessionRegistry, check_key

LINK_LIFETIME: Final = timedelta(hours=1)
LOGIN_PATH: Final = "/login"
_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
"""32 bytes are 43 characters of base64url without padding."""


@dataclass(frozen=True, slots=True)
class LoginToken:
    """Token of a link. The secret is in no repr."""

    id: str
    secret: str = field(repr=False)

    def reveal(self) -> str:
        """Return the token as the link has it."""
        return f"{self.id}_{self.secret}"

    def make_verifier(self, key_hash: bytes) -> str:
        """Return what is stored of the link of a key."""
        return hmac.new(self.secret.encode(), b"link" + key_hash, hashlib.sha256).hexdigest()

    def matches_verifier(self, verifier: str, key_hash: bytes) -> bool:
        """Compare with a stored verifier. The time of the comparison tells nothing about it."""
        return hmac.compare_digest(self.make_verifier(key_hash).encode(), verifier.encode())


def parse_login_token(text: str) -> LoginToken | None:
    """Return the token, or None if the text is none."""
    match = _TEXT.fullmatch(text)
    return None if match is None else LoginToken(match[1], match[2])


class LoginLinkStore(Protocol):
    """Stored links. All methods raise RequestError if the store cannot be reached."""

    async def add_link(self, record: LoginLinkRecord) -> None:
        """Store a new link."""
        ...

    async def take_link(self, link_id: str) -> LoginLinkRecord | None:
        """Remove a link and return it. Of several callers at once, in any replica, one gets it."""
        ...


@dataclass(frozen=True, slots=True)
class LoginLinks:
    """Makes links, and logs in who uses one."""

    store: LoginLinkStore
    authenticator: Authenticator
    sessions: SessionRegistry

    async def make_link(self, caller: Principal, next_path: str) -> LoginLink:
        """Make a link with the rights of the caller's key. It ends when it is used, after an hour, or with the key.

        On a server that needs no key it is the page itself.

        Raises:
            RequestError: `invalid_request` if `next_path` leaves this host, or if the caller sent no key: a session
                could outlive its logout by a link. `unauthorized` if the key is gone.
        """
        if not is_own_page(next_path):
            raise RequestError(ErrorCode.INVALID_REQUEST, "`next` is not a path of this server: send one like /review.")
        expires_at = datetime.now(UTC) + LINK_LIFETIME
        if caller == LOCAL_USER:
            return LoginLink(path=next_path, expires_at=expires_at)
        check_key(caller)
        key_hash = self.authenticator.find_key_hash(caller.name)
        if key_hash is None:
            raise RequestError(ErrorCode.UNAUTHORIZED, "The key was removed: ask for another one.")
        token = LoginToken(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))
        verifier = token.make_verifier(key_hash)
        await self.store.add_link(
            LoginLinkRecord(id=token.id, key_id=caller.name, expires_at=expires_at, verifier=verifier)
        )
        query = {"token": token.reveal()} | ({} if next_path == "/" else {"next": next_path})
        return LoginLink(path=f"{LOGIN_PATH}?{urlencode(query, safe='/')}", expires_at=expires_at)

    async def open_session(self, text: str) -> tuple[SessionText, SessionRecord]:
        """Begin the session of a link. The link is gone then.

        Raises:
            RequestError: `unauthorized` if the link was used, has expired, or its key is gone.
        """
        token = parse_login_token(text)
        record = None if token is None else await self.store.take_link(token.id)
        if token is None or record is None or record.expires_at <= datetime.now(UTC):
            raise _refuse_link()
        key_hash = self.authenticator.find_key_hash(record.key_id)
        if key_hash is None or not token.matches_verifier(record.verifier, key_hash):
            raise _refuse_link()
        return await self.sessions.open_session(self.authenticator.find_principal(record.key_id))


def is_own_page(path: str) -> bool:
    """Return True for a path of this host that is not the login itself, whatever a link says."""
    if not path.startswith("/") or path.startswith("//") or not path.isprintable() or " " in path or "\\" in path:
        return False
    return path.partition("?")[0] != LOGIN_PATH


def _refuse_link() -> RequestError:
    return RequestError(
        ErrorCode.UNAUTHORIZED, "The link was used already, or has expired: `skillbus open` makes another one."
    )
