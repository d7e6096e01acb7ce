"""Points of devices."""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from skillbus.common.bus.caller import Caller
from skillbus.indexer.adapters.bus_embedder import DocumentEmbedder
from skillbus.indexer.adapters.points.layout import BuiltPoints, EntryTexts, PointLayout
from skillbus.indexer.domain.home.device import DeviceRecord
from skillbus.indexer.domain.index.ports import Key, hash_content
from skillbus.relevance.device_text import build_device_aside_text, build_device_dense_text, build_device_lexical_text
from skillbus.vectors import point_id
from skillbus.vectors.datasets import DEVICES

_LAYOUT: Final = PointLayout(DEVICES, "entry", ("home", "type"))


class DevicePoints:
    """Builds points of devices."""

    layout = _LAYOUT

    def __init__(self, caller: Caller) -> None:
        self._embedder = DocumentEmbedder(caller)

    def make_point_id(self, key: Key) -> str:
        return point_id(*key)

    async def build_points(
        self, fingerprint: str, entries: Sequence[DeviceRecord], *, dense_required: bool
    ) -> BuiltPoints:
        devices = [entry.device for entry in entries]
        texts = EntryTexts(
            dense=[(build_device_dense_text(d.name, d.aliases, d.room, d.type),) for d in devices],
            lexical=tuple(build_device_lexical_text(d.name, d.aliases, d.room) for d in devices),
            asides=tuple(build_device_aside_text(d.type) for d in devices),
        )
        vectors = await self._embedder.embed_entries(fingerprint, texts, dense_required=dense_required)
        payloads = [_build_payload(entry, vectors.fingerprint) for entry in entries]
        return vectors.build_points([point_id(*entry.key) for entry in entries], payloads)


def _build_payload(entry: DeviceRecord, fingerprint: str) -> dict[str, JsonValue]:
    """Build the payload: fields for filters and for naming the device."""
    device = entry.device
    return {
        "project": entry.project,
        "entry": entry.key[1],
        "home": device.home,
        "device_id": device.id,
        "name": device.name,
        "room": device.room,
        "type": device.type,
        "content_hash": hash_content(entry, fingerprint),
    }
