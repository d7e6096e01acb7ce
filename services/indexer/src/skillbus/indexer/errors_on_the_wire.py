"""The indexer's own errors as callers get them: the one place where that is decided."""

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.indexer.domain.errors import (
    IndexerError,
    IndexMissingError,
    IndexUnavailableError,
    NoDefaultModelError,
    NothingNamedError,
    PlaceNotWantedError,
    RecordConflictError,
    RollBackRefusedError,
    SkillMissingError,
    SkillPinnedError,
    SwitchConflictError,
    ToolChangedError,
    ToolConflictError,
    ToolMissingError,
    VersionMissingError,
)
from skillbus.indexer.domain.package.findings import PackageError


def to_wire(error: Exception) -> RequestError | None:
    """The error of the contract; None for what is not the indexer's."""
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
        case VersionMissingError():
            return RequestError(ErrorCode.NOT_FOUND, str(error))
        case IndexerError():
            return _of_index(error)
        case _:
            return None


def _of_index(error: IndexerError) -> RequestError | None:
    match error:
        case NothingNamedError() | PlaceNotWantedError():
            return RequestError(ErrorCode.INVALID_REQUEST, str(error))
        case RecordConflictError() | SwitchConflictError() | ToolConflictError():
            return RequestError(ErrorCode.CONFLICT, str(error))
        case NoDefaultModelError() | RollBackRefusedError() | ToolChangedError():
            return RequestError(ErrorCode.CONFLICT, str(error), retryable=False)
        case IndexMissingError() | ToolMissingError():
            return RequestError(ErrorCode.NOT_FOUND, str(error))
        case IndexUnavailableError():
            return RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, str(error))
        case _:
            return None
