"""Conversion of the indexer's errors to errors of the contract."""

from collections.abc import Mapping
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.indexer.domain.errors import (
    IndexerError,
    IndexMissingError,
    IndexUnavailableError,
    NoDefaultModelError,
    NothingNamedError,
    PlaceNotWantedError,
    RollBackRefusedError,
    SkillMissingError,
    SkillPinnedError,
    ToolChangedError,
    ToolMissingError,
    VersionMissingError,
)
from skillbus.indexer.domain.package.findings import PackageError

_CODES: Final[Mapping[type[IndexerError], ErrorCode]] = {
    VersionMissingError: ErrorCode.NOT_FOUND,
    PlaceNotWantedError: ErrorCode.INVALID_REQUEST,
    ToolMissingError: ErrorCode.NOT_FOUND,
    ToolChangedError: ErrorCode.CONFLICT,
    NothingNamedError: ErrorCode.INVALID_REQUEST,
    IndexMissingError: ErrorCode.NOT_FOUND,
    NoDefaultModelError: ErrorCode.CONFLICT,
    RollBackRefusedError: ErrorCode.CONFLICT,
}


def to_wire(error: Exception) -> RequestError | None:
    """Convert an error of the indexer; return None for other errors."""
    match error:
        case PackageError():
            return RequestError(
                ErrorCode.SKILL_REJECTED,
                str(error),
                details={
                    "reason": error.code,
                    "errors": [item.model_dump() for item in error.errors],
                    "warnings": [item.model_dump() for item in error.warnings],
                },
            )
        case SkillMissingError():
            return RequestError(ErrorCode.SKILL_NOT_FOUND, str(error), details={"skill": error.name})
        case SkillPinnedError():
            return RequestError(ErrorCode.CONFLICT, str(error), retryable=False, details={"reason": "pinned"})
        case IndexUnavailableError():
            return RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, str(error))
        case IndexerError() if (code := _CODES.get(type(error))) is not None:
            # A conflict with a decision, unlike one with another writer, is not solved by a repetition.
            return RequestError(code, str(error), retryable=False)
        case _:
            return None
