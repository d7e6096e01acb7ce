"""Login and logout of browsers."""

from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.sessions import SessionRecord
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.principal import LOCAL_USER, Principal
from skillbus.gateway.domain.access.session import SessionText, make_session

SESSION_LIFETIME: Final = timedelta(hours=12)
SESSIONS_MAX: Final = 10
"""Most open sessions of a key. The oldest one ends when another one begins."""


class SessionStore(Protocol):
    """Stored sessions. All methods raise RequestError if the store cannot be reached."""

    async def add_session(self, record: SessionRecord) -> None:
        """Store a new session."""
        ...

    async def end_session(self, record: SessionRecord, revoked_at: datetime) -> None:
        """Mark a session as ended."""
        ...


class SessionRegistry:
    """Sessions as their users see them."""

    def __init__(self, store: SessionStore, authenticator: Authenticator) -> None:
        self._store = store
        self._authenticator = authenticator

    async def open_session(self, caller: Principal) -> tuple[SessionText, SessionRecord]:
        """Begin a session with the rights of the caller's key. It ends after 12 hours, or with the key.

        Raises:
            RequestError: `invalid_request` if the caller sent no key, `unauthorized` if its key is gone meanwhile.
        """
        if caller == LOCAL_USER:
            raise RequestError(ErrorCode.INVALID_REQUEST, "This server needs no key: send requests without a login.")
        check_key(caller)
        key_hash = self._authenticator.find_key_hash(caller.name)
        if key_hash is None:
            raise RequestError(ErrorCode.UNAUTHORIZED, "The key was removed: ask for another one.")
        now = datetime.now(UTC)
        for old in self._authenticator.sessions.list_usable(caller.name, now)[: 1 - SESSIONS_MAX]:
            await self._store.end_session(old, now)
        text = make_session()
        expires_at = now + SESSION_LIFETIME
        record = SessionRecord(
            id=text.id,
            key_id=caller.name,
            created_at=now,
            expires_at=expires_at if caller.expires_at is None else min(expires_at, caller.expires_at),
            verifier=text.make_verifier(key_hash),
        )
        await self._store.add_session(record)
        return text, record

    async def end_session(self, caller: Principal) -> None:
        """End the session of the request. Every replica refuses it at once.

        Raises:
            RequestError: `invalid_request` if the request came without a session.
        """
        if caller.session is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The request has no session: send its cookie and no key.")
        record = self._authenticator.sessions.find_record(caller.session.id)
        if record is not None:
            await self._store.end_session(record, datetime.now(UTC))


def check_key(caller: Principal) -> None:
    """Raise RequestError if the caller sent the cookie of a session in place of a key."""
    if caller.session is not None:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "A login needs a key: send it in the header `Authorization: Bearer <key>`."
        )
