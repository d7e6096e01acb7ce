"""The closed set of error codes, and the body of an error reply.

An error reply has the headers `Nats-Service-Error` (the message) and `Nats-Service-Error-Code` (the HTTP-like status)
of the NATS services API, and the body `{"error": {"code", "message", "retryable", "details"}}`.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import Field, JsonValue

from skillbus.contracts.message import Message


class ErrorCode(StrEnum):
    """Kind of error, for programs."""

    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    SKILL_NOT_FOUND = "skill_not_found"
    NOT_FOUND = "not_found"
    UNKNOWN_ACTION = "unknown_action"
    CONFLICT = "conflict"
    PRECONDITION_FAILED = "precondition_failed"
    NO_ENTRY_POINT = "no_entry_point"
    NOT_CALLABLE = "not_callable"
    APPROVAL_REQUIRED = "approval_required"
    CANCELLED = "cancelled"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    SKILL_REJECTED = "skill_rejected"
    INVALID_ARGUMENTS = "invalid_arguments"
    DEPENDENCIES_UNAVAILABLE = "dependencies_unavailable"
    RUNTIME_MISSING = "runtime_missing"
    OVERLOADED = "overloaded"
    STORAGE_FULL = "storage_full"
    INTERNAL = "internal"
    UNAVAILABLE = "unavailable"
    MODEL_UNAVAILABLE = "model_unavailable"
    VECTOR_STORE_UNAVAILABLE = "vector_store_unavailable"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"


class ErrorClass(NamedTuple):
    """Status, retryability and title of an error code."""

    status: int
    retryable: bool
    title: str
    """Meaning of the code, the same for every error with this code."""


ERROR_CLASSES: Final[dict[ErrorCode, ErrorClass]] = {
    ErrorCode.INVALID_REQUEST: ErrorClass(400, False, "The request does not follow the contract"),
    ErrorCode.UNAUTHORIZED: ErrorClass(401, False, "The request carries no valid key"),
    ErrorCode.FORBIDDEN: ErrorClass(403, False, "The request is not allowed"),
    ErrorCode.SKILL_NOT_FOUND: ErrorClass(404, False, "No such skill is installed"),
    ErrorCode.NOT_FOUND: ErrorClass(404, False, "The requested resource does not exist"),
    ErrorCode.UNKNOWN_ACTION: ErrorClass(404, False, "The skill has no such action"),
    ErrorCode.CONFLICT: ErrorClass(409, True, "The request conflicts with the current state"),
    ErrorCode.PRECONDITION_FAILED: ErrorClass(412, False, "The resource has changed since it was read"),
    ErrorCode.NO_ENTRY_POINT: ErrorClass(409, False, "The skill has no script to run, only instructions"),
    ErrorCode.NOT_CALLABLE: ErrorClass(409, False, "The tool can be found but not called: ask its provider"),
    ErrorCode.APPROVAL_REQUIRED: ErrorClass(403, False, "The call needs the approval of a person"),
    ErrorCode.CANCELLED: ErrorClass(409, False, "The work was cancelled before it ended"),
    ErrorCode.PAYLOAD_TOO_LARGE: ErrorClass(413, False, "The payload exceeds its size limit"),
    ErrorCode.SKILL_REJECTED: ErrorClass(422, False, "The package is not a valid skill"),
    ErrorCode.INVALID_ARGUMENTS: ErrorClass(422, False, "The arguments do not match the input schema"),
    ErrorCode.DEPENDENCIES_UNAVAILABLE: ErrorClass(424, False, "The packages that the skill needs cannot be installed"),
    ErrorCode.RUNTIME_MISSING: ErrorClass(501, False, "The runtime of the skill is not installed on this machine"),
    ErrorCode.STORAGE_FULL: ErrorClass(507, False, "The disk has no room for new data"),
    ErrorCode.OVERLOADED: ErrorClass(429, True, "The service is at its limit of concurrent requests"),
    ErrorCode.INTERNAL: ErrorClass(500, False, "The service failed; see its log"),
    ErrorCode.UNAVAILABLE: ErrorClass(503, True, "The service is not reachable"),
    ErrorCode.MODEL_UNAVAILABLE: ErrorClass(503, True, "No model is available"),
    ErrorCode.VECTOR_STORE_UNAVAILABLE: ErrorClass(503, True, "The vector store is not reachable"),
    ErrorCode.SANDBOX_UNAVAILABLE: ErrorClass(503, False, "This machine cannot isolate runs"),
    ErrorCode.DEADLINE_EXCEEDED: ErrorClass(504, True, "The deadline passed before the service replied"),
}

ANY_REQUEST: Final = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.OVERLOADED,
    ErrorCode.INTERNAL,
    ErrorCode.UNAVAILABLE,
    ErrorCode.DEADLINE_EXCEEDED,
)
"""Errors that every request can get."""


class ErrorDetail(Message):
    """Error of a request."""

    code: ErrorCode
    message: str
    """Cause of the error and what to do about it, for people."""
    retryable: bool
    """True if the same request, unchanged, can succeed later."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """Data about the error, for programs."""


class ErrorBody(Message):
    """Body of an error reply."""

    error: ErrorDetail


class RequestError(Exception):
    """A request that gets an error reply. Handlers raise it and callers receive it: one class on both sides."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        details: dict[str, JsonValue] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details or {}
        self.retryable = ERROR_CLASSES[code].retryable if retryable is None else retryable

    @property
    def status(self) -> int:
        """HTTP-like status of the code."""
        return ERROR_CLASSES[self.code].status

    def to_body(self) -> ErrorBody:
        """Return the body of the error reply."""
        detail = ErrorDetail(code=self.code, message=self.message, retryable=self.retryable, details=self.details)
        return ErrorBody(error=detail)
