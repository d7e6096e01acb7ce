"""What a Qdrant client raises, as this package's errors. Total: an exception that is not listed is a failed server."""

import json

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from skillbus.vectors.errors import CollectionMissing, VectorStoreError, VectorStoreRejected, VectorStoreUnavailable

_CALLERS_FAULT_STATUS = frozenset({400, 409, 411, 413, 414, 415, 422})
_CALLERS_FAULT_CODE = frozenset(
    {"INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"}
)


def vector_store_error(error: Exception, collection: str | None) -> VectorStoreError:
    """Translate `error`, raised by a call about `collection` (None: a call about no collection)."""
    match error:
        case UnexpectedResponse():
            return _of_response(error, collection)
        case grpc.aio.AioRpcError():
            return _of_rpc(error.code().name, error.details() or "", collection)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return VectorStoreUnavailable(f"an answer that no Qdrant server gives: {error}")
        case ValueError() | TypeError():
            return _of_argument(error, collection)
        case _:
            return VectorStoreUnavailable(_failure(error))


def _failure(error: Exception) -> str:
    match error:
        case ResponseHandlingException():
            return _said(error.source)
        case ResourceExhaustedResponse():
            return f"the server is overloaded, retry after {error.retry_after_s} s: {error}"
        case TimeoutError():
            return "no answer within the time limit"
        case _:
            return _said(error)


def _of_response(error: UnexpectedResponse, collection: str | None) -> VectorStoreError:
    reason = _reason(error.content)
    if reason is None:
        return VectorStoreUnavailable(f"HTTP {error.status_code} from something that is no Qdrant server")
    if error.status_code == 404 and collection is not None:
        return CollectionMissing(collection)
    if error.status_code in _CALLERS_FAULT_STATUS:
        return VectorStoreRejected(f"Qdrant refused the call: {reason}")
    return VectorStoreUnavailable(f"HTTP {error.status_code}: {reason}")


def _reason(content: bytes) -> str | None:
    """The message of a Qdrant error document; its own refusals of a key are plain text."""
    try:
        document = json.loads(content)
    except ValueError:
        text = content.decode(errors="replace").strip()
        return text if "API key" in text else None
    status = document.get("status") if isinstance(document, dict) else None
    return str(status["error"]) if isinstance(status, dict) and "error" in status else None


def _of_rpc(code: str, details: str, collection: str | None) -> VectorStoreError:
    if code == "NOT_FOUND" and collection is not None:
        return CollectionMissing(collection)
    if code in _CALLERS_FAULT_CODE:
        return VectorStoreRejected(f"Qdrant refused the call: {details}")
    return VectorStoreUnavailable(f"{code}: {details}")


def _of_argument(error: ValueError | TypeError, collection: str | None) -> VectorStoreError:
    """The client's own checks; its in-memory mode says in this way what a server says with 404."""
    if collection is not None and str(error) == f"Collection {collection} not found":
        return CollectionMissing(collection)
    return VectorStoreRejected(f"the Qdrant client refused the call: {error}")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
