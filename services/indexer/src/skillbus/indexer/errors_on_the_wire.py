"""The indexer's own errors as callers get them: the one place where that is decided."""

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.indexer.domain.errors import (
    IndexerError,
    IndexMissingError,
    IndexUnavailableError,
    NoDefaultModelError,
    RecordConflictError,
    RollBackRefusedError,
    SkillMissingError,
    SkillPinnedError,
    SwitchConflictError,
    VersionMissingError,
)
from skillbus.indexer.domain.package_errors import PackageError


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
        case RecordConflictError() | SwitchConflictError():
            return RequestError(ErrorCode.CONFLICT, str(error))
        case NoDefaultModelError() | RollBackRefusedError():
            return RequestError(ErrorCode.CONFLICT, str(error), retryable=False)
        case IndexMissingError():
            return RequestError(ErrorCode.NOT_FOUND, str(error))
        case IndexUnavailableError():
            return RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, str(error))
        case _:
            return None
