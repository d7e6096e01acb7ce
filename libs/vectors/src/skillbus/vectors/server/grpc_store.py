"""The vector store on a Qdrant server whose points are read and written over gRPC."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as qdrant

from skillbus.vectors import checks, models
from skillbus.vectors.errors import VectorStoreError
from skillbus.vectors.server.grpc_messages import (
    make_filter,
    make_id,
    make_point,
    make_query,
    read_id,
    read_record,
    select_payload,
    select_vectors,
)
from skillbus.vectors.server.nodes import ServerNodes
from skillbus.vectors.server.rest_store import UPSERT_CHUNK, RestVectorStore
from skillbus.vectors.server_options import ServerOptions
from skillbus.vectors.store import Hit, PayloadFields, StoreHealth, VectorNames

_CHANNEL_OPTIONS: Final = (
    # By default the backoff grows to two minutes, for which a restarted server would stay unavailable.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # By default a reply of more than 4 MiB is refused: a page of points with their vectors is larger.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)


@dataclass(frozen=True, slots=True)
class GrpcNode:
    """Channel to one node, and the stubs of Qdrant's services on it."""

    channel: Any  # grpcio ships no types
    points: Any
    collections: Any
    health: Any
    metadata: tuple[tuple[str, str], ...]


def open_grpc_node(url: str, port: int, api_key: str | None) -> GrpcNode:
    """Return a node on the host of a URL. It connects with the first call. HTTPS means TLS here too.

    Certificates are checked against those of the file `SSL_CERT_FILE`, or of gRPC without one.
    """
    parts = urlsplit(url)
    target = f"[{parts.hostname}]:{port}" if ":" in (parts.hostname or "") else f"{parts.hostname}:{port}"
    if parts.scheme == "https":
        bundle = os.environ.get("SSL_CERT_FILE")
        credentials = grpc.ssl_channel_credentials(Path(bundle).read_bytes() if bundle else None)
        channel = grpc.aio.secure_channel(target, credentials, options=_CHANNEL_OPTIONS)
    else:
        channel = grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
    return GrpcNode(
        channel,
        qdrant.PointsStub(channel),  # type: ignore[no-untyped-call]  # generated without annotations
        qdrant.CollectionsStub(channel),  # type: ignore[no-untyped-call]
        qdrant.QdrantStub(channel),  # type: ignore[no-untyped-call]
        () if api_key is None else (("api-key", api_key),),
    )


class GrpcVectorStore(RestVectorStore):
    """`VectorStore` whose points, aliases and health go over gRPC; the rest of its administration stays on REST.

    A search takes a sixth of the client's CPU over REST: our values become messages and back without the client's
    models in between.
    """

    def __init__(
        self, rest: ServerNodes[AsyncQdrantClient], nodes: ServerNodes[GrpcNode], options: ServerOptions
    ) -> None:
        super().__init__(rest, options)
        self._grpc = nodes

    async def _request(self, service: str, method: str, message: object, collection: str | None = None) -> Any:
        async def send(node: GrpcNode) -> Any:
            return await getattr(getattr(node, service), method)(message, metadata=node.metadata)

        return await self._grpc.call_node(send, collection)

    async def _aliases(self) -> dict[str, str]:
        found = await self._request("collections", "ListAliases", qdrant.ListAliasesRequest())
        return {entry.alias_name: entry.collection_name for entry in found.aliases}

    async def health(self) -> StoreHealth:
        try:
            found = await self._request("health", "HealthCheck", qdrant.HealthCheckRequest())
        except VectorStoreError as error:
            return StoreHealth(ready=False, engine=f"Qdrant at {self._grpc.urls}", notices=(str(error),))
        return StoreHealth(ready=True, engine=f"Qdrant {found.version} at {self._grpc.urls}")

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        checks.check_queries(requests)
        if not requests:
            return []
        queries = [make_query(collection, request) for request in requests]
        message = qdrant.QueryBatchPoints(collection_name=collection, query_points=queries)
        answer = await self._request("points", "QueryBatch", message, collection)
        return [[Hit(read_id(point.id), point.score) for point in one.result] for one in answer.result]

    async def retrieve(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> list[models.Record]:
        checks.check_ids(ids)
        message = qdrant.GetPoints(
            collection_name=collection,
            ids=[make_id(point) for point in ids],
            with_payload=select_payload(with_payload),
            with_vectors=select_vectors(with_vectors),
        )
        answer = await self._request("points", "Get", message, collection)
        return [read_record(point) for point in answer.result]

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        message = qdrant.CountPoints(collection_name=collection, filter=make_filter(condition), exact=True)
        answer = await self._request("points", "Count", message, collection)
        return int(answer.result.count)

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        mode = qdrant.UpdateMode.InsertOnly if insert_only else None
        for start in range(0, len(points), UPSERT_CHUNK):
            chunk = points[start : start + UPSERT_CHUNK]
            checks.check_points(chunk)
            message = qdrant.UpsertPoints(
                collection_name=collection,
                wait=True,
                points=[make_point(point) for point in chunk],
                update_mode=mode,
            )
            await self._request("points", "Upsert", message, collection)

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        if isinstance(selection, models.Filter):
            checks.check_deletion(selection)
            selector = qdrant.PointsSelector(filter=make_filter(selection))
        else:
            checks.check_ids(selection)
            ids = qdrant.PointsIdsList(ids=[make_id(point) for point in selection])
            selector = qdrant.PointsSelector(points=ids)
        message = qdrant.DeletePoints(collection_name=collection, wait=True, points=selector)
        await self._request("points", "Delete", message, collection)

    async def scroll(
        self,
        collection: str,
        *,
        condition: models.Filter | None = None,
        limit: int = 256,
        offset: str | None = None,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> tuple[list[models.Record], str | None]:
        checks.check_page(limit, offset)
        message = qdrant.ScrollPoints(
            collection_name=collection,
            filter=make_filter(condition),
            offset=None if offset is None else make_id(offset),
            limit=limit,
            with_payload=select_payload(with_payload),
            with_vectors=select_vectors(with_vectors),
        )
        page = await self._request("points", "Scroll", message, collection)
        following = read_id(page.next_page_offset) if page.HasField("next_page_offset") else None
        return [read_record(point) for point in page.result], following

    async def close(self) -> None:
        await asyncio.gather(*(node.channel.close() for node in self._grpc.nodes))
        await super().close()
