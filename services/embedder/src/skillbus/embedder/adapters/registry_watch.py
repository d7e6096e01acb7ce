"""Hears of every replica's changes to the registry."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.bus.connection import Bus
from skillbus.contracts.resources import REGISTRY
from skillbus.embedder.adapters.announcer import CHANGED

_SUBJECT: Final = f"$KV.{REGISTRY.name}.{CHANGED}"
_LISTENING_WITHIN_S: Final = 2


class RegistryWatch:
    """Implements `ChangeFeed` by what is published to the key's subject.

    A write to a key-value bucket is a publish that any subscription hears. It needs no consumer, and no bucket yet.
    What is written while the connection is away is not heard, so that each reconnection counts as a change.
    """

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._heard = 0

    def position(self) -> int:
        return self._heard + self._client.stats["reconnects"]

    async def listening(self) -> None:
        try:
            await self._client.flush(timeout=_LISTENING_WITHIN_S)
        except (NatsError, TimeoutError, OSError):
            return  # the connection is away: when it is back, the position is another

    async def hear(self, _: Msg) -> None:
        self._heard += 1


@asynccontextmanager
async def open_registry_watch(bus: Bus) -> AsyncGenerator[RegistryWatch]:
    """The feed, for as long as it is open. Raises NatsError when the connection is closed."""
    watch = RegistryWatch(bus)
    subscription = await bus.client.subscribe(_SUBJECT, cb=watch.hear)
    try:
        yield watch
    finally:
        with suppress(NatsError):  # a connection that is closed or drains has forgotten it
            await subscription.unsubscribe()
