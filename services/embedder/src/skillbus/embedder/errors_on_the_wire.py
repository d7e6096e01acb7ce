"""The embedder's own errors as callers get them: the one place where that is decided."""

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.embedder.domain.errors import (
    EmbedderClosedError,
    EmbedderError,
    ModelUnavailableError,
    OverloadedError,
    TextNotEmbeddableError,
)


def to_wire(error: Exception) -> RequestError | None:
    """The error of the contract; None for what is not the embedder's."""
    match error:
        case OverloadedError():
            return RequestError(ErrorCode.OVERLOADED, str(error), details={"queued": error.queued})
        case TextNotEmbeddableError():
            return RequestError(ErrorCode.INVALID_REQUEST, str(error), details={"text_index": error.text_index})
        case ModelUnavailableError():
            return RequestError(ErrorCode.MODEL_UNAVAILABLE, str(error))
        case EmbedderClosedError():
            return RequestError(ErrorCode.UNAVAILABLE, str(error))
        case EmbedderError():
            return RequestError(ErrorCode.INTERNAL, str(error))
        case _:
            return None
