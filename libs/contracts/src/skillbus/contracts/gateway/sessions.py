"""Logins of browsers: replies of `/api/session` and its links, and the records in the bucket `api-keys`."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.gateway.api_keys import KeyProject, Role
from skillbus.contracts.message import Message

CSRF_HEADER: Final = "X-CSRF-Token"

SessionId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class SessionStatus(Message):
    """Rights of the caller, and the token of its session."""

    name: str
    """`owner`, `local` on a gateway without a key, or the id of the API key."""
    role: Role
    projects: tuple[KeyProject, ...]
    """Projects that the caller may use. `*` means every project."""
    expires_at: datetime | None = None
    """Time from which the session, or the key of the request, is refused. Absent means that it does not expire."""
    csrf_token: str | None = Field(default=None, repr=False)
    """Token to send as `X-CSRF-Token` with every request but GET, HEAD and OPTIONS. Absent without a session."""


class SessionRecord(Message):
    """Session as it is stored, under `session.<id>`."""

    id: SessionId
    key_id: str
    """Id of the API key that logged in, or `owner`."""
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    """Time of the logout."""
    verifier: str = Field(repr=False)
    """HMAC-SHA256 of the stored hash of the key, keyed with the secret of the cookie, in hexadecimal."""


class LoginLinkBody(Message):
    """Wanted link."""

    next: str = Field(default="/", max_length=2_000)
    """Page that the link leads to: a path of this server."""


class LoginLink(Message):
    """Link that logs one browser in, once."""

    path: str = Field(repr=False)
    """Path with the token, below the address of the gateway. Without a token on a server that needs no key."""
    expires_at: datetime
    """Time from which the link is refused."""


class LoginLinkRecord(Message):
    """Login link as it is stored until it is used, under `link.<id>`."""

    id: SessionId
    key_id: str
    """Id of the API key that made it, or `owner`."""
    expires_at: datetime
    verifier: str = Field(repr=False)
    """HMAC-SHA256 of the stored hash of the key, keyed with the secret of the link, in hexadecimal."""
