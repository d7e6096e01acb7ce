"""Conversion of the sandbox's errors to wire errors."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.sandbox.domain.errors import (
    ActionUnknown,
    ArgumentsInvalid,
    DependenciesInvalid,
    DependenciesUnavailable,
    NothingToRun,
    RunKnown,
    RunRejected,
    RuntimeMissing,
    RunUnknown,
    SandboxBroken,
    SandboxError,
    SandboxUnavailable,
    SchemaInvalid,
    SkillDisabled,
)

_CODES: Final[Mapping[type[SandboxError], ErrorCode]] = {
    ArgumentsInvalid: ErrorCode.INVALID_ARGUMENTS,
    SchemaInvalid: ErrorCode.INVALID_ARGUMENTS,
    ActionUnknown: ErrorCode.UNKNOWN_ACTION,
    SkillDisabled: ErrorCode.FORBIDDEN,
    NothingToRun: ErrorCode.NO_ENTRY_POINT,
    DependenciesInvalid: ErrorCode.DEPENDENCIES_UNAVAILABLE,
    DependenciesUnavailable: ErrorCode.DEPENDENCIES_UNAVAILABLE,
    RunRejected: ErrorCode.INVALID_REQUEST,
    RunKnown: ErrorCode.CONFLICT,
    RunUnknown: ErrorCode.NOT_FOUND,
    RuntimeMissing: ErrorCode.RUNTIME_MISSING,
    SandboxUnavailable: ErrorCode.SANDBOX_UNAVAILABLE,
    SandboxBroken: ErrorCode.SANDBOX_UNAVAILABLE,
}


def to_wire(error: Exception) -> RequestError | None:
    """Return the wire error, None for an error of another package."""
    if not isinstance(error, SandboxError):
        return None
    details: dict[str, JsonValue] = {}
    retryable: bool | None = None  # the default of the code
    match error:
        case ArgumentsInvalid() | SchemaInvalid():
            details["path"] = error.path
        case ActionUnknown():
            details["actions"] = list(error.known)
        case DependenciesUnavailable():
            retryable = error.retryable
        case RunKnown():  # a known run stays known
            retryable = False
        case SandboxBroken():  # another sandbox may start
            retryable = True
    return RequestError(_CODES.get(type(error), ErrorCode.INTERNAL), str(error), details=details, retryable=retryable)
