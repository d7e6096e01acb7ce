"""The embedder's own errors as callers get them: the one place where that is decided."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.embedder.domain.errors import (
    EmbedderClosedError,
    EmbedderError,
    ModelUnavailableError,
    ModelUnknownError,
    OverloadedError,
    RegistryError,
    TextNotEmbeddableError,
)
from skillbus.embedder.domain.registry.errors import ChangedMeanwhileError

_CODES: Final[Mapping[type[EmbedderError], ErrorCode]] = {
    OverloadedError: ErrorCode.OVERLOADED,
    TextNotEmbeddableError: ErrorCode.INVALID_REQUEST,
    ModelUnknownError: ErrorCode.NOT_FOUND,
    ModelUnavailableError: ErrorCode.MODEL_UNAVAILABLE,
    EmbedderClosedError: ErrorCode.UNAVAILABLE,
}


def to_wire(error: Exception) -> RequestError | None:
    """The error of the contract; None for what is not the embedder's."""
    if not isinstance(error, EmbedderError):
        return None
    if isinstance(error, RegistryError):
        # A clash with the rules stays one until somebody changes something.
        retryable = error.code is ErrorCode.UNAVAILABLE or isinstance(error, ChangedMeanwhileError)
        return RequestError(error.code, str(error), retryable=retryable)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), ErrorCode.INTERNAL)
    return RequestError(code, str(error), details=_details(error))


def _details(error: EmbedderError) -> dict[str, JsonValue] | None:
    match error:
        case OverloadedError():
            return {"queued": error.queued}
        case TextNotEmbeddableError():
            return {"text_index": error.text_index}
        case _:
            return None
