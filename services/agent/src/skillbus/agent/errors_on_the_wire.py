"""Translation of the agent's errors into errors of the contract. It happens only here."""

import math
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.agent.domain.errors import (
    AgentError,
    ApprovalMissingError,
    ArgumentsInvalidError,
    CallDeniedError,
    CallTimedOutError,
    ForeignTurnError,
    ModelBusyError,
    ModelFailedError,
    ModelRefusedError,
    NothingWaitsError,
    SchemaUnusableError,
    ServerFailedError,
    ServerInFileError,
    ServerUnknownError,
    ToolExternalError,
    ToolNotCallableError,
    ToolUnknownError,
    TurnCancelledError,
    TurnClashError,
    TurnUnknownError,
)
from skillbus.contracts.errors import ErrorCode, RequestError

_CODES: Final[Mapping[type[AgentError], ErrorCode]] = {
    ServerUnknownError: ErrorCode.NOT_FOUND,
    ToolUnknownError: ErrorCode.NOT_FOUND,
    ServerInFileError: ErrorCode.CONFLICT,
    ToolNotCallableError: ErrorCode.FORBIDDEN,
    ApprovalMissingError: ErrorCode.APPROVAL_REQUIRED,
    CallDeniedError: ErrorCode.FORBIDDEN,
    ToolExternalError: ErrorCode.NOT_CALLABLE,
    ServerFailedError: ErrorCode.UNAVAILABLE,
    CallTimedOutError: ErrorCode.DEADLINE_EXCEEDED,
    ArgumentsInvalidError: ErrorCode.INVALID_ARGUMENTS,
    SchemaUnusableError: ErrorCode.INVALID_ARGUMENTS,
    ModelBusyError: ErrorCode.OVERLOADED,
    ModelFailedError: ErrorCode.MODEL_UNAVAILABLE,
    ModelRefusedError: ErrorCode.INVALID_REQUEST,
    TurnUnknownError: ErrorCode.NOT_FOUND,
    TurnClashError: ErrorCode.CONFLICT,
    ForeignTurnError: ErrorCode.FORBIDDEN,
    NothingWaitsError: ErrorCode.NOT_FOUND,
    TurnCancelledError: ErrorCode.CANCELLED,
}


def to_wire(error: Exception) -> RequestError | None:
    """Return the error of the contract; None for errors of others."""
    if not isinstance(error, AgentError):
        return None
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), ErrorCode.INTERNAL)
    details: dict[str, JsonValue] | None = None
    if isinstance(error, ArgumentsInvalidError):
        details = {"path": error.path}
    elif isinstance(error, ToolExternalError):
        details = {"provided_by": error.provided_by}
    elif isinstance(error, ModelBusyError):
        details = {"limit_of": "provider"}
        if error.retry_after_s is not None:
            details["retry_after_s"] = math.ceil(error.retry_after_s)
    # A call that timed out may have been done: the caller has to decide whether to repeat it.
    return RequestError(
        code, str(error), details=details, retryable=False if isinstance(error, CallTimedOutError) else None
    )
