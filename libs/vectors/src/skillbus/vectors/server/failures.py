"""Translation of the exceptions of Qdrant's clients into errors of the port."""

import json
from typing import Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from skillbus.vectors.errors import CollectionMissing, VectorStoreError, VectorStoreRejected, VectorStoreUnavailable

_CALLERS_FAULT_STATUS: Final = frozenset({400, 409, 411, 413, 414, 415, 422})
_CALLERS_FAULT_CODE: Final = frozenset({"INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE"})


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
