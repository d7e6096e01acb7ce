"""Maps the learner's errors to wire errors. The one place that does so."""

from pydantic import JsonValue

from skillbus.contracts.errors import RequestError
from skillbus.learner.domain.errors import LearnerError, OtherVersionError


def to_wire(error: Exception) -> RequestError | None:
    """Return the wire error; None for an error that is not the learner's."""
    if not isinstance(error, LearnerError):
        return None
    details: dict[str, JsonValue] = {"version": error.version} if isinstance(error, OtherVersionError) else {}
    return RequestError(error.code, str(error), retryable=error.retryable, details=details)
