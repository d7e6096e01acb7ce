"""Making, listing and revoking of API keys."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import (
    ApiKeyCreated,
    ApiKeyRecord,
    ApiKeyRevoked,
    ApiKeysListed,
    CreateApiKey,
)
from skillbus.gateway.domain.access.api_key import make_key
from skillbus.gateway.domain.access.key_lineage import is_made_by, trace_lineage
from skillbus.gateway.domain.access.principal import Principal

KEYS_MAX: Final = 1_000
"""Most keys that are neither revoked nor expired. Every replica of the gateway holds all keys in memory."""


class KeyStore(Protocol):
    """Stored API keys. All methods raise RequestError if the store cannot be reached."""

    async def list_records(self) -> tuple[ApiKeyRecord, ...]:
        """Return all keys in any order."""
        ...

    async def list_uses(self) -> Mapping[str, datetime]:
        """Return the time of the last use of each key that was used."""
        ...

    async def add_record(self, record: ApiKeyRecord) -> None:
        """Store a new key."""
        ...

    async def revoke_record(self, key_id: str, revoked_at: datetime) -> ApiKeyRecord | None:
        """Mark a key as revoked and return it; None if there is no such key."""
        ...


class KeyRegistry:
    """API keys as their administrators see them."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store

    async def create_key(self, request: CreateApiKey, caller: Principal) -> ApiKeyCreated:
        """Make a key, which expires with the caller's key at the latest. Its text is in the reply and nowhere else.

        Raises:
            RequestError: `forbidden` for a role or a project that the caller does not have, `conflict` if there are
                too many keys.
        """
        caller.check_role(request.role)
        for project in request.projects:
            caller.check_project(project)
        now = datetime.now(UTC)
        records = {record.id: record for record in await self._store.list_records()}
        usable = sum(trace_lineage(record, records.get).is_usable(now) for record in records.values())
        if usable >= KEYS_MAX:
            raise RequestError(ErrorCode.CONFLICT, f"There are {usable} keys, the most allowed: revoke one first.")
        text = make_key()
        wanted = None if request.expires_in_s is None else now + timedelta(seconds=request.expires_in_s)
        ends = [end for end in (wanted, caller.expires_at) if end is not None]
        record = ApiKeyRecord(
            id=text.id,
            label=request.label,
            role=request.role,
            projects=tuple(dict.fromkeys(request.projects)),
            created_at=now,
            created_by=caller.name,
            expires_at=min(ends, default=None),
            secret_sha256=text.hash_secret(),
        )
        await self._store.add_record(record)
        return ApiKeyCreated(**dict(record.to_api_key()), key=text.reveal())

    async def list_keys(self, caller: Principal) -> ApiKeysListed:
        """Return the keys that the caller may revoke, newest first."""
        uses = await self._store.list_uses()
        records = {record.id: record for record in await self._store.list_records()}
        shown = [_show_end(record, records) for record in records.values() if _has_rights(caller, record)]
        shown.sort(key=lambda record: (record.created_at, record.id), reverse=True)
        return ApiKeysListed(keys=tuple(record.to_api_key(uses.get(record.id)) for record in shown))

    async def revoke_key(self, key_id: str, caller: Principal) -> ApiKeyRevoked:
        """Revoke a key, and so all keys that it made. Every replica refuses them at once. A repetition changes nothing.

        Raises:
            RequestError: `not_found` if there is no such key among those that the caller may revoke.
        """
        records = {record.id: record for record in await self._store.list_records()}
        revoked = records.get(key_id)
        if revoked is not None and _has_rights(caller, revoked):
            if revoked.revoked_at is None:
                revoked = await self._store.revoke_record(key_id, datetime.now(UTC))
            if revoked is not None:
                made = sorted(it.id for it in records.values() if is_made_by(it, key_id, records.get))
                return ApiKeyRevoked(**dict(revoked.to_api_key()), made_keys=tuple(made))
        raise RequestError(ErrorCode.NOT_FOUND, f"There is no key {key_id!r}.")


def _show_end(record: ApiKeyRecord, records: Mapping[str, ApiKeyRecord]) -> ApiKeyRecord:
    """Return a key with the ends of its makers as its own. Without a record of a maker it never let anybody in."""
    lineage = trace_lineage(record, records.get)
    revoked_at = lineage.revoked_at if lineage.is_complete else record.created_at
    return record.model_copy(update={"revoked_at": revoked_at, "expires_at": lineage.expires_at})


def _has_rights(caller: Principal, record: ApiKeyRecord) -> bool:
    """Return True if the caller has every right of the key."""
    return caller.role.includes(record.role) and (
        caller.has_all_projects or caller.projects.issuperset(record.projects)
    )
