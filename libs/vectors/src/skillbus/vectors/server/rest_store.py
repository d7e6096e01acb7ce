"""The vector store on a Qdrant server over REST, through one client a node, which reconnects by itself."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qdrant

from skillbus.vectors import checks, models
from skillbus.vectors.errors import CollectionMismatch, VectorStoreError, VectorStoreRejected
from skillbus.vectors.server.nodes import ServerNodes
from skillbus.vectors.server.rest_models import translate_filter, translate_point, translate_query, translate_record
from skillbus.vectors.server_options import ServerOptions
from skillbus.vectors.store import DENSE, LEXICAL, CollectionSpec, Hit, PayloadFields, StoreHealth, VectorNames

UPSERT_CHUNK: Final = 256
"""Points of a request: about 3 MB of JSON with 512 dimensions, far below the server's default limit of 32 MB."""


class RestVectorStore:
    """`VectorStore` over the REST interface of the nodes of a server."""

    def __init__(self, nodes: ServerNodes[AsyncQdrantClient], options: ServerOptions) -> None:
        self._nodes = nodes
        self._options = options
        self._closed = False

    async def resolve_alias(self, alias: str) -> str | None:
        return (await self._aliases()).get(alias)

    async def _aliases(self) -> dict[str, str]:
        found = await self._nodes.call_node(lambda client: client.get_aliases())
        return {entry.alias_name: entry.collection_name for entry in found.aliases}

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        checks.check_queries(requests)
        if not requests:
            return []
        translated = [translate_query(request) for request in requests]
        answers = await self._nodes.call_node(
            lambda client: client.query_batch_points(collection, translated), collection
        )
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
        found = await self._nodes.call_node(
            lambda client: client.retrieve(
                collection, list(ids), with_payload=_selected(with_payload), with_vectors=_selected(with_vectors)
            ),
            collection,
        )
        return [translate_record(record) for record in found]

    def get_revision(self, collection: str) -> int | None:
        return None  # other processes write too

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        counted = translate_filter(condition)
        answer = await self._nodes.call_node(
            lambda client: client.count(collection, count_filter=counted, exact=True), collection
        )
        return answer.count

    async def health(self) -> StoreHealth:
        try:
            info = await self._nodes.call_node(lambda client: client.info())
        except VectorStoreError as error:
            return StoreHealth(ready=False, engine=f"Qdrant at {self._nodes.urls}", notices=(str(error),))
        return StoreHealth(ready=True, engine=f"Qdrant {info.version} at {self._nodes.urls}")

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        checks.check_name(name)
        checks.check_spec(spec)
        created = False
        if name not in await self.list_collections():
            checks.check_creation(name, await self._aliases())
            created = await self._create(name, spec)
        info = await self._nodes.call_node(lambda client: client.get_collection(name), name)
        vectors = info.config.params.vectors
        dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
        found = None if dense is None else dense.size
        if found != spec.dim:
            raise CollectionMismatch(name, spec.dim, found)
        await self._create_indexes(name, spec, set(info.payload_schema))
        return created

    async def _create(self, name: str, spec: CollectionSpec) -> bool:
        dense = qdrant.VectorParams(size=spec.dim, distance=qdrant.Distance.COSINE, datatype=qdrant.Datatype.FLOAT16)
        try:
            return await self._nodes.call_node(
                lambda client: client.create_collection(
                    name,
                    vectors_config={DENSE: dense},
                    sparse_vectors_config={LEXICAL: qdrant.SparseVectorParams(modifier=qdrant.Modifier.IDF)},
                    shard_number=self._options.shards,
                    replication_factor=self._options.replicas,
                )
            )
        except VectorStoreRejected:
            # Another replica created it first; after any other refusal there is no collection.
            if name not in await self.list_collections():
                raise
            return False

    async def _create_indexes(self, name: str, spec: CollectionSpec, present: set[str]) -> None:
        schemas: dict[str, qdrant.KeywordIndexParams | qdrant.FloatIndexParams] = {
            key: qdrant.KeywordIndexParams(
                type=qdrant.KeywordIndexType.KEYWORD, is_tenant=True if key == spec.tenant else None
            )
            for key in (spec.tenant, *spec.keywords)
        }
        schemas |= {key: qdrant.FloatIndexParams(type=qdrant.FloatIndexType.FLOAT) for key in spec.numbers}
        for key, schema in schemas.items():
            if key not in present:
                create = partial(_create_index, name=name, key=key, schema=schema)
                await self._nodes.call_node(create, name)

    async def delete_collection(self, name: str) -> bool:
        checks.check_name(name)
        if name not in await self.list_collections():
            return False
        return await self._nodes.call_node(lambda client: client.delete_collection(name))

    async def list_collections(self) -> list[str]:
        found = await self._nodes.call_node(lambda client: client.get_collections())
        return sorted(entry.name for entry in found.collections)

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        present = await self.list_collections()
        checks.check_switch(targets, present)
        operations: list[qdrant.AliasOperations] = []
        for alias, collection in targets.items():
            operations.append(qdrant.DeleteAliasOperation(delete_alias=qdrant.DeleteAlias(alias_name=alias)))
            creation = qdrant.CreateAlias(collection_name=collection, alias_name=alias)
            operations.append(qdrant.CreateAliasOperation(create_alias=creation))
        await self._nodes.call_node(lambda client: client.update_collection_aliases(operations))

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        mode = qdrant.UpdateMode.INSERT_ONLY if insert_only else None
        for start in range(0, len(points), UPSERT_CHUNK):
            chunk = list(points[start : start + UPSERT_CHUNK])
            checks.check_points(chunk)
            translated = [translate_point(point) for point in chunk]
            await self._nodes.call_node(
                partial(_upsert_points, collection=collection, points=translated, mode=mode), collection
            )

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        selector: qdrant.FilterSelector | qdrant.PointIdsList
        if isinstance(selection, models.Filter):
            checks.check_deletion(selection)
            selector = qdrant.FilterSelector(filter=translate_filter(selection) or qdrant.Filter())
        else:
            checks.check_ids(selection)
            selector = qdrant.PointIdsList(points=list(selection))
        await self._nodes.call_node(lambda client: client.delete(collection, selector, wait=True), collection)

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
        chosen = translate_filter(condition)
        records, following = await self._nodes.call_node(
            lambda client: client.scroll(
                collection,
                scroll_filter=chosen,
                limit=limit,
                offset=offset,
                with_payload=_selected(with_payload),
                with_vectors=_selected(with_vectors),
            ),
            collection,
        )
        return [translate_record(record) for record in records], None if following is None else str(following)

    async def flush(self) -> None:
        """Do nothing: every write waits until the server has logged it."""

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.gather(*(client.close() for client in self._nodes.nodes))


def _selected(names: bool | Sequence[str]) -> bool | list[str]:
    return names if isinstance(names, bool) else list(names)


async def _create_index(
    client: AsyncQdrantClient, name: str, key: str, schema: qdrant.KeywordIndexParams | qdrant.FloatIndexParams
) -> None:
    await client.create_payload_index(name, key, field_schema=schema)


async def _upsert_points(
    client: AsyncQdrantClient, collection: str, points: list[qdrant.PointStruct], mode: qdrant.UpdateMode | None
) -> None:
    await client.upsert(collection, points, wait=True, update_mode=mode)
