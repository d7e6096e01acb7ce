"""Translation of the embedder's errors to those of the contract."""

from skillbus.contracts.errors import RequestError
from skillbus.embedder.domain.errors import EmbedderError


def to_wire(error: Exception) -> RequestError | None:
    """Return the error of the contract, or None for an error that is not the embedder's."""
    if not isinstance(error, EmbedderError):
        return None
    return RequestError(error.code, str(error), retryable=error.retryable, details=error.details)
