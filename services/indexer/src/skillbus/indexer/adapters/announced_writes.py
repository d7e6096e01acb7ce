"""A vector store whose writes are announced to the processes that keep what they read there."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.bus.events import publish_to_feed
from skillbus.contracts.indexer.index_writes import INDEX_WRITTEN, IndexWritten
from skillbus.vectors import VectorStore, VectorStoreUnavailable, models


class AnnouncingVectorStore:
    """A `VectorStore` that announces each write to a collection. Everything else is the store's own.

    The announcement is sent before a write returns, so before the reply of whoever waits for it: NATS delivers both in
    that order. A write that failed is announced too, as a part of it may be done.
    """

    def __init__(self, store: VectorStore, client: Client) -> None:
        self._store = store
        self._client = client
        self.resolve_alias, self.query, self.retrieve = store.resolve_alias, store.query, store.retrieve
        self.get_revision, self.count, self.health = store.get_revision, store.count, store.health
        self.ensure_collection, self.switch_aliases = store.ensure_collection, store.switch_aliases
        self.list_collections, self.scroll = store.list_collections, store.scroll
        self.flush, self.close = store.flush, store.close

    async def delete_collection(self, name: str) -> bool:
        async with self._announce_write(name):
            return await self._store.delete_collection(name)

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        async with self._announce_write(collection):
            await self._store.upsert(collection, points, insert_only=insert_only)

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        async with self._announce_write(collection):
            await self._store.delete(collection, selection)

    @asynccontextmanager
    async def _announce_write(self, collection: str) -> AsyncGenerator[None]:
        """Announce the write inside. Raises VectorStoreUnavailable if that is impossible: repeat the write then."""
        try:
            yield
        except BaseException:
            with suppress(NatsError):  # the caller gets the error of the write, or its own cancellation
                await self._publish(collection)
            raise
        try:
            await self._publish(collection)
        except NatsError as error:
            raise VectorStoreUnavailable(f"a write could not be announced: {error!r}") from error

    async def _publish(self, collection: str) -> None:
        await publish_to_feed(self._client, INDEX_WRITTEN, collection, IndexWritten(collection=collection))
