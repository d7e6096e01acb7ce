import grpc
import httpx
import pytest
from grpc.aio import AioRpcError, Metadata
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException

from skillbus.vectors import CollectionMissing, VectorStoreRejected, VectorStoreUnavailable
from skillbus.vectors.server.failures import translate_error


def rpc(code: grpc.StatusCode) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details="details")


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (rpc(grpc.StatusCode.UNAVAILABLE), VectorStoreUnavailable),
        (rpc(grpc.StatusCode.DEADLINE_EXCEEDED), VectorStoreUnavailable),
        (rpc(grpc.StatusCode.UNAUTHENTICATED), VectorStoreUnavailable),
        (rpc(grpc.StatusCode.INVALID_ARGUMENT), VectorStoreRejected),
        (rpc(grpc.StatusCode.NOT_FOUND), CollectionMissing),
        (ResponseHandlingException(httpx.ConnectError("refused")), VectorStoreUnavailable),
        (ResponseHandlingException(httpx.ReadTimeout("")), VectorStoreUnavailable),
        (ResourceExhaustedResponse("slow down", 3), VectorStoreUnavailable),
        (TimeoutError(), VectorStoreUnavailable),
        (RuntimeError("Client was closed"), VectorStoreUnavailable),
        (ValueError("limit value 0 is invalid"), VectorStoreRejected),
        (ValueError("Collection tools not found"), CollectionMissing),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), VectorStoreRejected),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), VectorStoreUnavailable),
    ],
)
def test_every_error_of_the_client_becomes_one_of_ours(error, becomes):
    assert type(translate_error(error, "tools")) is becomes


def test_an_error_without_a_message_still_says_what_it_was():
    error = translate_error(ResponseHandlingException(httpx.ReadTimeout("")), "tools")
    assert str(error) == "Qdrant connection failed: ReadTimeout"


def test_what_is_missing_without_a_collection_is_no_missing_collection():
    assert type(translate_error(rpc(grpc.StatusCode.NOT_FOUND), None)) is VectorStoreUnavailable
