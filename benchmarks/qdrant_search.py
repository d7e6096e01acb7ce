"""Qdrant's own client against the collection of tools that skillbus keeps on a Qdrant server."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from qdrant_client import AsyncQdrantClient, models
from tool_search_corpus import COLUMNS, LIMIT, TYPE, EmbeddedQuery

from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.vectors import DENSE, LEXICAL, VectorStore
from skillbus.vectors.opening import QdrantSettings

_POLL_S: Final = 0.2
_SETTLE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class QdrantSearch:
    """Hybrid search by Qdrant's client: both sides in one request, filtered, joined by the server's RRF."""

    client: AsyncQdrantClient
    collection: str
    queries: Sequence[EmbeddedQuery]

    async def search(self, number: int) -> int:
        """Return the number of tools found."""
        query = self.queries[number]
        passes = models.Filter(
            must=[
                models.FieldCondition(key="project", match=models.MatchValue(value=DEFAULT_PROJECT)),
                models.FieldCondition(key="tool_type", match=models.MatchValue(value=TYPE.value)),
            ]
        )
        words = models.SparseVector(indices=list(query.term_indices), values=list(query.term_values))
        found = await self.client.query_points(
            self.collection,
            prefetch=[
                models.Prefetch(query=query.vector.tolist(), using=DENSE, filter=passes, limit=LIMIT),
                models.Prefetch(query=words, using=LEXICAL, filter=passes, limit=LIMIT),
            ],
            query=models.FusionQuery(fusion=models.Fusion.RRF),
            limit=LIMIT,
            with_payload=["tool_id", *COLUMNS[1:]],
        )
        return len(found.points)

    async def wait_until_optimized(self) -> None:
        """Wait until the server has built its indexes. Raises TimeoutError after ten minutes."""
        async with asyncio.timeout(_SETTLE_S):
            # The server has no event to wait for.
            while (await self.client.get_collection(self.collection)).status != models.CollectionStatus.GREEN:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def open_qdrant_search(
    collection: str, queries: Sequence[EmbeddedQuery], *, grpc: bool
) -> AsyncGenerator[QdrantSearch]:
    """Connect to the server of `SKILLBUS_QDRANT_URL`."""
    settings = QdrantSettings()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    client = AsyncQdrantClient(
        url=settings.url, api_key=key, grpc_port=settings.grpc_port, prefer_grpc=grpc, check_compatibility=False
    )
    try:
        yield QdrantSearch(client, collection, queries)
    finally:
        await client.close()


@asynccontextmanager
async def borrow_empty_server(store: VectorStore) -> AsyncGenerator[None]:
    """Delete all collections at the end, so refuse a server that has some already."""
    if there := await store.list_collections():
        raise SystemExit(f"this fills and empties a Qdrant server, and the one given has {len(there)} collections")
    try:
        yield
    finally:
        for name in await store.list_collections():
            await store.delete_collection(name)
