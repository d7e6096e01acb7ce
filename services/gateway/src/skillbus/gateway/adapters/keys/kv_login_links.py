"""Login links in the key-value bucket `api-keys`."""

from datetime import UTC, datetime
from typing import Final

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.records import WriteConflictError
from skillbus.contracts.gateway.sessions import LoginLinkRecord
from skillbus.contracts.resources import API_KEYS

_LINK: Final = "link"


class KvLoginLinks:
    """Implements `LoginLinkStore`."""

    def __init__(self, bus: Bus) -> None:
        self._links = KvRecords(bus, API_KEYS, LoginLinkRecord, key_of=lambda record: f"{_LINK}.{record.id}")

    async def add_link(self, record: LoginLinkRecord) -> None:
        await self._remove_expired()
        await self._links.save(f"{_LINK}.{record.id}", record, 0)

    async def take_link(self, link_id: str) -> LoginLinkRecord | None:
        key = f"{_LINK}.{link_id}"
        stored = await self._links.load(key)
        if stored is None:
            return None
        try:
            await self._links.delete(key, stored.revision)
        except WriteConflictError:  # somebody else used it at this moment
            return None
        await self._links.purge(key)
        return stored.record

    async def _remove_expired(self) -> None:
        now = datetime.now(UTC)
        for key, record in (await self._links.load_all(f"{_LINK}.*")).items():
            if record.expires_at <= now:
                await self._links.purge(key)
