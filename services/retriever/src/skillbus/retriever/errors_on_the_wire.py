"""The retriever's own errors as callers get them: the one place where that is decided."""

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.retriever.domain.errors import (
    RecordUnavailableError,
    RetrieverError,
    StoreUnavailableError,
    TemplateRefusedError,
    TokenizerUnknownError,
)


def to_wire(error: Exception) -> RequestError | None:
    """The error of the contract; None for what is not the retriever's."""
    match error:
        case StoreUnavailableError():
            return RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, str(error))
        case RecordUnavailableError():
            return RequestError(ErrorCode.UNAVAILABLE, str(error))
        case TemplateRefusedError():
            return RequestError(ErrorCode.INVALID_REQUEST, str(error))
        case TokenizerUnknownError():
            return RequestError(ErrorCode.NOT_FOUND, str(error))
        case RetrieverError():
            return RequestError(ErrorCode.INTERNAL, str(error))
        case _:
            return None
