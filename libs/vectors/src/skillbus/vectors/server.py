"""The vector store on a Qdrant server, through one client per process, which reconnects by itself."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qdrant
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from skillbus.vectors import checks, models
from skillbus.vectors.errors import (
    CollectionMismatch,
    CollectionMissing,
    VectorStoreError,
    VectorStoreRejected,
    VectorStoreUnavailable,
)
from skillbus.vectors.server_models import translate_filter, translate_point, translate_query, translate_record
from skillbus.vectors.store import DENSE, LEXICAL, CollectionSpec, Hit, PayloadFields, StoreHealth, VectorNames

T = TypeVar("T")

UPSERT_CHUNK: Final = 256
"""Points of a request: about 3 MB of JSON with 512 dimensions, far below the server's default limit of 32 MB."""

_RECONNECT: Final = {
    # By default the backoff grows to two minutes, for which a restarted server would stay unavailable.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
}
_CALLERS_FAULT_STATUS = frozenset({400, 409, 411, 413, 414, 415, 422})
_CALLERS_FAULT_CODE = frozenset(
    {"INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"}
)


@asynccontextmanager
async def open_server_store(
    url: str, *, api_key: str | None, prefer_grpc: bool, timeout_s: float
) -> AsyncIterator["ServerVectorStore"]:
    """Open a client. The server may start later. `timeout_s` limits each call, connecting included.

    gRPC is cheaper for large uploads, while REST took less CPU for short lists of hits.
    """
    # The key is sent as a header: given as `api_key`, the client assumes TLS and warns about plain-text connections.
    headers = {"api-key": api_key} if api_key is not None else None
    client = AsyncQdrantClient(
        url=url,
        headers=headers,
        prefer_grpc=prefer_grpc,
        grpc_options=dict(_RECONNECT),
        timeout=max(1, math.ceil(timeout_s)),
        pool_size=32,
        check_compatibility=False,  # the check is a thread that only warns; health() returns the version
    )
    store = ServerVectorStore(client, url=url, timeout_s=timeout_s)
    try:
        yield store
    finally:
        await store.close()


class ServerVectorStore:
    """`VectorStore` on an `AsyncQdrantClient`."""

    def __init__(self, client: AsyncQdrantClient, *, url: str, timeout_s: float) -> None:
        self._client = client
        self._url = url
        self._timeout_s = timeout_s
        self._closed = False

    async def resolve_alias(self, alias: str) -> str | None:
        return (await self._aliases()).get(alias)

    async def _aliases(self) -> dict[str, str]:
        found = await self._call(self._client.get_aliases())
        return {entry.alias_name: entry.collection_name for entry in found.aliases}

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        checks.check_queries(requests)
        if not requests:
            return []
        translated = [translate_query(request) for request in requests]
        answers = await self._call(self._client.query_batch_points(collection, translated), collection)
        return [[Hit(str(point.id), point.score) for point in answer.points] for answer in answers]

    async def retrieve(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> list[models.Record]:
        checks.check_ids(ids)
        found = await self._call(
            self._client.retrieve(
                collection, list(ids), with_payload=_selected(with_payload), with_vectors=_selected(with_vectors)
            ),
            collection,
        )
        return [translate_record(record) for record in found]

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        count = self._client.count(collection, count_filter=translate_filter(condition), exact=True)
        answer = await self._call(count, collection)
        return answer.count

    async def health(self) -> StoreHealth:
        try:
            info = await self._call(self._client.info())
        except VectorStoreError as error:
            return StoreHealth(ready=False, engine=f"Qdrant at {self._url}", notices=(str(error),))
        return StoreHealth(ready=True, engine=f"Qdrant {info.version} at {self._url}")

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        checks.check_name(name)
        checks.check_spec(spec)
        created = False
        if name not in await self.list_collections():
            checks.check_creation(name, await self._aliases())
            created = await self._create(name, spec)
        info = await self._call(self._client.get_collection(name), name)
        vectors = info.config.params.vectors
        dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
        found = None if dense is None else dense.size
        if found != spec.dim:
            raise CollectionMismatch(name, spec.dim, found)
        await self._create_indexes(name, spec, set(info.payload_schema))
        return created

    async def _create(self, name: str, spec: CollectionSpec) -> bool:
        creation = self._client.create_collection(
            name,
            vectors_config={
                DENSE: qdrant.VectorParams(
                    size=spec.dim, distance=qdrant.Distance.COSINE, datatype=qdrant.Datatype.FLOAT16
                )
            },
            sparse_vectors_config={LEXICAL: qdrant.SparseVectorParams(modifier=qdrant.Modifier.IDF)},
        )
        try:
            return await self._call(creation)
        except VectorStoreRejected:
            # Another replica created it first; after any other refusal there is no collection.
            if name not in await self.list_collections():
                raise
            return False

    async def _create_indexes(self, name: str, spec: CollectionSpec, present: set[str]) -> None:
        for key in dict.fromkeys((spec.tenant, *spec.keywords)):
            if key not in present:
                schema = qdrant.KeywordIndexParams(
                    type=qdrant.KeywordIndexType.KEYWORD, is_tenant=True if key == spec.tenant else None
                )
                await self._call(self._client.create_payload_index(name, key, field_schema=schema), name)
        for key in spec.numbers:
            if key not in present:
                number = qdrant.FloatIndexParams(type=qdrant.FloatIndexType.FLOAT)
                await self._call(self._client.create_payload_index(name, key, field_schema=number), name)

    async def delete_collection(self, name: str) -> bool:
        checks.check_name(name)
        if name not in await self.list_collections():
            return False
        return await self._call(self._client.delete_collection(name))

    async def list_collections(self) -> list[str]:
        found = await self._call(self._client.get_collections())
        return sorted(entry.name for entry in found.collections)

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        present = await self.list_collections()
        checks.check_switch(targets, present)
        operations: list[qdrant.AliasOperations] = []
        for alias, collection in targets.items():
            operations.append(qdrant.DeleteAliasOperation(delete_alias=qdrant.DeleteAlias(alias_name=alias)))
            creation = qdrant.CreateAlias(collection_name=collection, alias_name=alias)
            operations.append(qdrant.CreateAliasOperation(create_alias=creation))
        await self._call(self._client.update_collection_aliases(operations))

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        mode = qdrant.UpdateMode.INSERT_ONLY if insert_only else None
        for start in range(0, len(points), UPSERT_CHUNK):
            chunk = list(points[start : start + UPSERT_CHUNK])
            checks.check_points(chunk)
            translated = [translate_point(point) for point in chunk]
            await self._call(self._client.upsert(collection, translated, wait=True, update_mode=mode), collection)

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        selector: qdrant.FilterSelector | qdrant.PointIdsList
        if isinstance(selection, models.Filter):
            checks.check_deletion(selection)
            selector = qdrant.FilterSelector(filter=translate_filter(selection) or qdrant.Filter())
        else:
            checks.check_ids(selection)
            selector = qdrant.PointIdsList(points=list(selection))
        await self._call(self._client.delete(collection, selector, wait=True), collection)

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
        page = self._client.scroll(
            collection,
            scroll_filter=translate_filter(condition),
            limit=limit,
            offset=offset,
            with_payload=_selected(with_payload),
            with_vectors=_selected(with_vectors),
        )
        records, following = await self._call(page, collection)
        return [translate_record(record) for record in records], None if following is None else str(following)

    async def flush(self) -> None:
        """Do nothing: every write waits until the server has logged it."""

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._client.close()

    async def _call(self, call: Awaitable[T], collection: str | None = None) -> T:
        """Await a call of the client within the timeout, and translate its exceptions."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call
        except Exception as error:
            raise translate_error(error, collection) from error


def _selected(names: bool | Sequence[str]) -> bool | list[str]:
    return names if isinstance(names, bool) else list(names)


def translate_error(error: Exception, collection: str | None) -> VectorStoreError:
    """Translate an exception of a call. `collection` is None if the call names none.

    An exception that is not listed counts as a failed server.
    """
    match error:
        case UnexpectedResponse():
            return _translate_response(error, collection)
        case grpc.aio.AioRpcError():
            return _translate_rpc(error.code().name, error.details() or "", collection)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return VectorStoreUnavailable(f"an answer that no Qdrant server gives: {error}")
        case ValueError() | TypeError():  # the client's own checks
            if collection is not None and str(error) == f"Collection {collection} not found":  # its in-memory mode
                return CollectionMissing(collection)
            return VectorStoreRejected(f"the Qdrant client refused the call: {error}")
        case _:
            return VectorStoreUnavailable(_describe_failure(error))


def _describe_failure(error: Exception) -> str:
    match error:
        case ResponseHandlingException():
            return _describe(error.source)
        case ResourceExhaustedResponse():
            return f"the server is overloaded, retry after {error.retry_after_s} s: {error}"
        case TimeoutError():
            return "no answer within the time limit"
        case _:
            return _describe(error)


def _translate_response(error: UnexpectedResponse, collection: str | None) -> VectorStoreError:
    reason = _read_reason(error.content)
    if reason is None:
        return VectorStoreUnavailable(f"HTTP {error.status_code} from something that is no Qdrant server")
    if error.status_code == 404 and collection is not None:
        return CollectionMissing(collection)
    if error.status_code in _CALLERS_FAULT_STATUS:
        return VectorStoreRejected(f"Qdrant refused the call: {reason}")
    return VectorStoreUnavailable(f"HTTP {error.status_code}: {reason}")


def _read_reason(content: bytes) -> str | None:
    """Return the message of a Qdrant error document or of its plain-text refusal of a key; None of anything else."""
    try:
        document = json.loads(content)
    except ValueError:
        text = content.decode(errors="replace").strip()
        return text if "API key" in text else None
    status = document.get("status") if isinstance(document, dict) else None
    return str(status["error"]) if isinstance(status, dict) and "error" in status else None


def _translate_rpc(code: str, details: str, collection: str | None) -> VectorStoreError:
    if code == "NOT_FOUND" and collection is not None:
        return CollectionMissing(collection)
    if code in _CALLERS_FAULT_CODE:
        return VectorStoreRejected(f"Qdrant refused the call: {details}")
    return VectorStoreUnavailable(f"{code}: {details}")


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
