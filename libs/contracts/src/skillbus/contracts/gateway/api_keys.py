"""API keys: roles, requests and replies of `/api/keys`, and the records in the bucket `api-keys`."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.message import WITHOUT_NUL, Message

ALL_PROJECTS: Final = "*"
"""Project of a key that may use every project."""
EXPIRES_MAX_S: Final = 10 * 365 * 24 * 3600.0

ApiKeyId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]{8,32}$"),
    Field(description="Id of the key. It is part of the key's text and not secret.", examples=["7k2m9qx4vt"]),
]
KeyProject = Annotated[
    str,
    StringConstraints(pattern=r"^(\*|[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?)$"),
    Field(description="Project that the key may use. `*` means every project."),
]
KeyLabel = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=r"^[^\r\n]*$"),
    WITHOUT_NUL,
    Field(description="Name of the person or program that uses the key.", examples=["build server"]),
]


class Role(StrEnum):
    """Rights of a key. Each role has the rights of the ones before it."""

    READER = "reader"
    """Search, read, and build contexts."""
    RUNNER = "runner"
    """Run skills, call tools, embed texts, give feedback, and suggest knowledge."""
    EDITOR = "editor"
    """Install skills, write and review knowledge, and import."""
    ADMIN = "admin"
    """Manage keys, providers, MCP servers, quarantine and network approvals."""

    def includes(self, other: "Role") -> bool:
        """Return True if this role has every right of the other one."""
        return _RANKS[self] >= _RANKS[other]


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


class ApiKey(Message):
    """API key without its secret."""

    id: ApiKeyId
    label: KeyLabel
    role: Role
    projects: tuple[KeyProject, ...]
    created_at: datetime
    created_by: str
    """`owner`, `local` on a gateway without a key, or the id of the key that made it."""
    expires_at: datetime | None = None
    """Time from which the key is refused. Absent means that it does not expire."""
    revoked_at: datetime | None = None
    """Time at which the key was revoked, or the key that made it."""
    last_used_at: datetime | None = None
    """Time of the last request with the key, to the minute. Absent means never."""


class CreateApiKey(Message):
    """New API key."""

    label: KeyLabel
    role: Role = Role.READER
    projects: tuple[KeyProject, ...] = Field(min_length=1, max_length=50)
    """Projects that the key may use. A request with a key of one project need not name it."""
    expires_in_s: float | None = Field(default=None, ge=1, le=EXPIRES_MAX_S, allow_inf_nan=False)
    """Seconds until the key expires, at the latest with the key that makes it. Absent means no end of its own."""


class RevokeApiKey(Message):
    """API key to revoke."""

    id: ApiKeyId


class ApiKeyCreated(ApiKey):
    """New API key with its text, which is shown only here."""

    key: str = Field(repr=False)
    """Text to send as `Authorization: Bearer <key>`. skillbus keeps only a hash of it."""


class ApiKeyRevoked(ApiKey):
    """Revoked API key."""

    made_keys: tuple[ApiKeyId, ...]
    """Keys that it made, and that those made. They have ended with it."""


class ApiKeysListed(Message):
    """API keys, newest first."""

    keys: tuple[ApiKey, ...]


class ApiKeyRecord(Message):
    """API key as it is stored, under `key.<id>`."""

    id: ApiKeyId
    label: KeyLabel
    role: Role
    projects: tuple[KeyProject, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    secret_sha256: str = Field(repr=False)
    """SHA-256 of the secret in hexadecimal. The secret has 256 random bits, so that a slow hash is not needed."""

    def to_api_key(self, last_used_at: datetime | None = None) -> ApiKey:
        """Return the key without its hash."""
        fields = self.model_dump(exclude={"secret_sha256"})
        return ApiKey.model_validate({**fields, "last_used_at": last_used_at})


class ApiKeyUse(Message):
    """Last use of an API key, stored under `use.<id>` at most once a minute."""

    last_used_at: datetime


KEY_ACTS: Final = {
    "create_api_key": AuditedAct(made="id", details=("role", "projects")),
    "revoke_api_key": AuditedAct("id", details=("made_keys",)),
}
"""Administrative acts that the gateway carries out itself, by the name of their operation."""
