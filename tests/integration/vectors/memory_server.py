"""A gRPC server on loopback with Qdrant's services over the client's own engine in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as qdrant
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc


class _Engine:
    """Answers of the engine; a collection that it does not know is `NOT_FOUND`, as of the real server."""

    def __init__(self, client: AsyncQdrantClient) -> None:
        self.client = client
        self.seen: list[tuple[str, Any, dict[str, str]]] = []
        """Method, message and metadata of every request."""

    async def answer(self, context: grpc.aio.ServicerContext, method: str, message: Any, work: Any) -> Any:
        self.seen.append((method, message, dict(context.invocation_metadata() or ())))
        try:
            return await work()
        except ValueError as error:
            code = grpc.StatusCode.NOT_FOUND if "not found" in str(error) else grpc.StatusCode.INVALID_ARGUMENT
            await context.abort(code, str(error))


class _Points(qdrant.PointsServicer):
    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._client = engine.client

    async def QueryBatch(self, request, context):  # noqa: N802 - the names are those of the service
        async def work():
            asked = [GrpcToRest.convert_query_points(query) for query in request.query_points]
            found = await self._client.query_batch_points(request.collection_name, asked)
            results = [[RestToGrpc.convert_scored_point(point) for point in one.points] for one in found]
            return qdrant.QueryBatchResponse(result=[qdrant.BatchResult(result=one) for one in results])

        return await self._engine.answer(context, "QueryBatch", request, work)

    async def Get(self, request, context):  # noqa: N802
        async def work():
            found = await self._client.retrieve(
                request.collection_name,
                [GrpcToRest.convert_point_id(point) for point in request.ids],
                with_payload=GrpcToRest.convert_with_payload_selector(request.with_payload),
                with_vectors=GrpcToRest.convert_with_vectors_selector(request.with_vectors),
            )
            return qdrant.GetResponse(result=[_convert_record(point) for point in found])

        return await self._engine.answer(context, "Get", request, work)

    async def Count(self, request, context):  # noqa: N802
        async def work():
            chosen = GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None
            found = await self._client.count(request.collection_name, count_filter=chosen, exact=request.exact)
            return qdrant.CountResponse(result=qdrant.CountResult(count=found.count))

        return await self._engine.answer(context, "Count", request, work)

    async def Upsert(self, request, context):  # noqa: N802
        async def work():
            points = [GrpcToRest.convert_point_struct(point) for point in request.points]
            has_mode = request.HasField("update_mode")
            mode = GrpcToRest.convert_update_mode(request.update_mode) if has_mode else None
            await self._client.upsert(request.collection_name, points, wait=request.wait, update_mode=mode)
            return qdrant.PointsOperationResponse()

        return await self._engine.answer(context, "Upsert", request, work)

    async def Delete(self, request, context):  # noqa: N802
        async def work():
            selector = GrpcToRest.convert_points_selector(request.points)
            await self._client.delete(request.collection_name, selector, wait=request.wait)
            return qdrant.PointsOperationResponse()

        return await self._engine.answer(context, "Delete", request, work)

    async def Scroll(self, request, context):  # noqa: N802
        async def work():
            found, following = await self._client.scroll(
                request.collection_name,
                scroll_filter=GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None,
                limit=request.limit,
                offset=GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
                with_payload=GrpcToRest.convert_with_payload_selector(request.with_payload),
                with_vectors=GrpcToRest.convert_with_vectors_selector(request.with_vectors),
            )
            after = None if following is None else RestToGrpc.convert_extended_point_id(following)
            records = [_convert_record(point) for point in found]
            return qdrant.ScrollResponse(result=records, next_page_offset=after)

        return await self._engine.answer(context, "Scroll", request, work)


def _convert_record(record):
    return RestToGrpc.convert_retrieved_point(record.model_copy(update={"payload": record.payload or {}}))


class _Collections(qdrant.CollectionsServicer):
    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    async def ListAliases(self, request, context):  # noqa: N802
        async def work():
            found = await self._engine.client.get_aliases()
            aliases = [
                qdrant.AliasDescription(alias_name=one.alias_name, collection_name=one.collection_name)
                for one in found.aliases
            ]
            return qdrant.ListAliasesResponse(aliases=aliases)

        return await self._engine.answer(context, "ListAliases", request, work)


class _Health(qdrant.QdrantServicer):
    async def HealthCheck(self, request, context):  # noqa: N802
        return qdrant.HealthCheckReply(title="qdrant - vector search engine", version="0.0.0")


@asynccontextmanager
async def serve_in_memory(client: AsyncQdrantClient, port: int = 0) -> AsyncIterator[tuple[int, list[Any]]]:
    """Serve an engine; yield the port and the requests that arrive: method, message and metadata."""
    engine = _Engine(client)
    server = grpc.aio.server()
    qdrant.add_PointsServicer_to_server(_Points(engine), server)
    qdrant.add_CollectionsServicer_to_server(_Collections(engine), server)
    qdrant.add_QdrantServicer_to_server(_Health(), server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield bound, engine.seen
    finally:
        await server.stop(grace=0)
