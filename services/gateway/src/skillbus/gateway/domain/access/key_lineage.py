"""A key and the keys that made it, up to the owner. No key outlives one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillbus.contracts.gateway.api_keys import ApiKeyRecord
from skillbus.gateway.domain.access.principal import LOCAL_USER, OWNER

_ROOTS: Final = frozenset({OWNER.name, LOCAL_USER.name})
"""Makers that are no API keys."""

FindRecord = Callable[[str], ApiKeyRecord | None]


@dataclass(frozen=True, slots=True)
class KeyLineage:
    """Ends of a key and of its makers."""

    revoked_at: datetime | None
    """Time at which the first of them was revoked."""
    expires_at: datetime | None
    """Time at which the first of them expires."""
    is_complete: bool
    """False if a maker's record is gone, so that nobody knows whether it was revoked."""
    length: int
    """Number of the keys: one more than that of the key that made it."""

    @property
    def ends_at(self) -> datetime | None:
        """Time from which the key is refused; None if no end is known."""
        return min((end for end in (self.revoked_at, self.expires_at) if end is not None), default=None)

    def is_usable(self, now: datetime) -> bool:
        """Return True if requests with the key are let in."""
        return self.is_complete and (self.ends_at is None or self.ends_at > now)


def trace_lineage(record: ApiKeyRecord, find_record: FindRecord) -> KeyLineage:
    """Return the ends of a key, of the key that made it, and so on."""
    line = _list_line(record, find_record)
    return KeyLineage(
        revoked_at=min((it.revoked_at for it in line if it.revoked_at is not None), default=None),
        expires_at=min((it.expires_at for it in line if it.expires_at is not None), default=None),
        is_complete=line[-1].created_by in _ROOTS,
        length=len(line),
    )


def is_made_by(record: ApiKeyRecord, key_id: str, find_record: FindRecord) -> bool:
    """Return True if a key was made by another one, or by one that it made."""
    return any(it.created_by == key_id for it in _list_line(record, find_record))


def _list_line(record: ApiKeyRecord, find_record: FindRecord) -> list[ApiKeyRecord]:
    """Return a key and its makers, as far as they are known."""
    line = {record.id: record}
    while record.created_by not in line and (maker := find_record(record.created_by)) is not None:
        line[maker.id] = record = maker
    return list(line.values())
