"""The one place where the retriever's errors become errors of the contract."""

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.retriever.domain.errors import (
    ModelMissingError,
    RecordUnavailableError,
    RetrieverError,
    StoreUnavailableError,
    TokenizerUnknownError,
)


def to_wire(error: Exception) -> RequestError | None:
    """Return the error of the contract; None if the error is not the retriever's."""
    match error:
        case StoreUnavailableError():
            return RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, str(error))
        case RecordUnavailableError():
            return RequestError(ErrorCode.UNAVAILABLE, str(error))
        case ModelMissingError():
            return RequestError(ErrorCode.MODEL_UNAVAILABLE, str(error))
        case TokenizerUnknownError():
            return RequestError(ErrorCode.NOT_FOUND, str(error))
        case RetrieverError():
            return RequestError(ErrorCode.INTERNAL, str(error))
        case _:
            return None
