"""Tells the other replicas, and whoever keeps vectors, that the registry changed."""

from typing import Final
from uuid import uuid4

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.facts import publish_fact
from skillbus.common.bus.jetstream_call import jetstream_call
from skillbus.contracts.embedder.registry import DEFAULT_MODEL_CHANGED, DefaultModelChanged
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.resources import REGISTRY
from skillbus.embedder.domain.registry_errors import ChangeNotToldError

CHANGED: Final = "changed"
"""The key that is written after each change; its value says nothing."""


class BusAnnouncer:
    """Implements `Changes`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def changed(self) -> None:
        try:
            async with jetstream_call(f"write the key {CHANGED} of the bucket {REGISTRY.name}"):
                bucket = await self._bus.jetstream.key_value(REGISTRY.name)
                await bucket.put(CHANGED, uuid4().hex.encode())
        except RequestError as error:
            raise ChangeNotToldError(error.message) from error

    async def default_changed(self, fact: DefaultModelChanged) -> None:
        try:
            await publish_fact(
                self._bus,
                DEFAULT_MODEL_CHANGED,
                fact,
                identity=fact.fingerprint,
                message_id=f"default_changed:{uuid4().hex}",  # back to a model that was the default is another fact
                project=DEFAULT_PROJECT,  # models belong to no project
            )
        except RequestError as error:
            raise ChangeNotToldError(error.message) from error
