"""Conversion of the indexer's errors to errors of the contract."""

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.indexer.domain.errors import IndexerError
from skillbus.indexer.domain.package.findings import PackageError


def to_wire(error: Exception) -> RequestError | None:
    """Convert an error of the indexer; return None for other errors."""
    if isinstance(error, PackageError):
        return RequestError(
            ErrorCode.SKILL_REJECTED,
            str(error),
            details={
                "reason": error.code,
                "errors": [item.model_dump() for item in error.errors],
                "warnings": [item.model_dump() for item in error.warnings],
            },
        )
    if isinstance(error, IndexerError) and error.code is not None:
        # A conflict with a decision, unlike one with another writer, is not solved by a repetition.
        retryable = False if error.code is ErrorCode.CONFLICT else None
        return RequestError(error.code, str(error), details=error.details, retryable=retryable)
    return None
