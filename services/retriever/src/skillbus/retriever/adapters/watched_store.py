"""A Qdrant server as the retriever reads it: with revisions, counted from the writes that the indexer announces."""

import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import confirm_subscriptions
from skillbus.contracts.indexer.index_writes import INDEX_WRITTEN
from skillbus.vectors import VectorSearch

_SETTLES_IN_S: Final = 1.0
"""Time after a write in which nothing is kept: the copies of a cluster may not have it yet."""
_TRUSTED_FOR_S: Final = 60.0
"""Longest time for which a revision stands: writes that nobody announces, as of an operator, count from then on."""


class WatchedVectorStore:
    """A `VectorSearch` whose collections have revisions. Everything else is the store's own.

    Announcements made while the connection is down are not heard, so each reconnection counts as a write.
    """

    def __init__(self, store: VectorSearch, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._writes = Counter[str]()
        self._written_at: dict[str, float] = {}
        self.resolve_alias, self.query, self.retrieve = store.resolve_alias, store.query, store.retrieve
        self.count, self.health = store.count, store.health

    def get_revision(self, collection: str) -> int | None:
        if self._clock() < self._written_at.get(collection, -math.inf) + _SETTLES_IN_S:
            return None
        # Three counts that only grow: their sum changes with each of them.
        return self._writes[collection] + self._client.stats["reconnects"] + int(self._clock() // _TRUSTED_FOR_S)

    async def count_write(self, message: Msg) -> None:
        collection = decode(INDEX_WRITTEN.body, message.data).collection
        self._writes[collection] += 1
        self._written_at[collection] = self._clock()


@asynccontextmanager
async def watch_writes(
    store: VectorSearch, client: Client, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[WatchedVectorStore]:
    """Listen to the announcements while the context is open. Raises NatsError if the connection is closed."""
    watched = WatchedVectorStore(store, client, clock)
    subscription = await client.subscribe(INDEX_WRITTEN.pattern, cb=watched.count_write)
    await confirm_subscriptions(client)
    try:
        yield watched
    finally:
        with suppress(NatsError):  # a closed or draining connection has dropped the subscription
            await subscription.unsubscribe()
