"""Registry changes on the bus: announce them to other replicas and hear theirs."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.contracts.embedder.registry import DEFAULT_MODEL_CHANGED, DefaultModelChanged
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.resources import REGISTRY
from skillbus.embedder.domain.registry.errors import ChangeNotToldError

CHANGED: Final = "changed"
"""Key written after each change. Its value has no meaning."""
_SUBJECT: Final = f"$KV.{REGISTRY.name}.{CHANGED}"
_FLUSH_TIMEOUT_S: Final = 2


class RegistryAnnouncer:
    """Implementation of `RegistryChangeAnnouncer`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def announce_change(self) -> None:
        try:
            async with jetstream_call(f"write the key {CHANGED} of the bucket {REGISTRY.name}"):
                bucket = await self._bus.jetstream.key_value(REGISTRY.name)
                await bucket.put(CHANGED, uuid4().hex.encode())
        except RequestError as error:
            raise ChangeNotToldError(error.message) from error

    async def announce_default(self, fact: DefaultModelChanged) -> None:
        try:
            await publish_event(
                self._bus,
                DEFAULT_MODEL_CHANGED,
                fact,
                identity=fact.fingerprint,
                message_id=f"default_changed:{uuid4().hex}",  # returning to an earlier default is a new fact
                project=DEFAULT_PROJECT,  # models belong to no project
            )
        except RequestError as error:
            raise ChangeNotToldError(error.message) from error


class RegistryWatch:
    """Implementation of `ChangeFeed`: a subscription to the subject of the key.

    A write to a key-value bucket is a publish that any subscription hears. It needs no consumer, and no bucket yet.
    Writes made while the connection is down are not heard, so each reconnection counts as a change.
    """

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._heard = 0

    @property
    def position(self) -> int:
        return self._heard + self._client.stats["reconnects"]

    async def wait_until_listening(self) -> None:
        try:
            await self._client.flush(timeout=_FLUSH_TIMEOUT_S)
        except (NatsError, TimeoutError, OSError):
            return  # the connection is down: the reconnection will move the position

    async def count_change(self, _: Msg) -> None:
        self._heard += 1


@asynccontextmanager
async def open_registry_watch(bus: Bus) -> AsyncGenerator[RegistryWatch]:
    """Subscribe to registry changes while the context is open. Raises NatsError if the connection is closed."""
    watch = RegistryWatch(bus)
    subscription = await bus.client.subscribe(_SUBJECT, cb=watch.count_change)
    try:
        yield watch
    finally:
        with suppress(NatsError):  # a closed or draining connection has dropped the subscription
            await subscription.unsubscribe()
