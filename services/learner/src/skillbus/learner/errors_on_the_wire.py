"""The learner's own errors as callers get them: the one place where that is decided."""

from pydantic import JsonValue

from skillbus.contracts.errors import RequestError
from skillbus.learner.domain.errors import LearnerError, OtherVersionError


def to_wire(error: Exception) -> RequestError | None:
    """The error of the contract; None for what is not the learner's."""
    if not isinstance(error, LearnerError):
        return None
    details: dict[str, JsonValue] = {"version": error.version} if isinstance(error, OtherVersionError) else {}
    return RequestError(error.code, str(error), retryable=error.retryable, details=details)
