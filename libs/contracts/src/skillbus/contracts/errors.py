"""The closed set of error codes, and the body that an error reply carries.

An error reply has the headers `Nats-Service-Error` (the message) and `Nats-Service-Error-Code` (the HTTP-like status),
as the NATS services API writes them, and the body `{"error": {"code", "message", "retryable", "details"}}`.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import Field, JsonValue

from skillbus.contracts.message import Message


class ErrorCode(StrEnum):
    """What went wrong, as a caller tells cases apart."""

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
    PAYLOAD_TOO_LARGE = "payload_too_large"
    SKILL_REJECTED = "skill_rejected"
    INVALID_ARGUMENTS = "invalid_arguments"
    DEPENDENCIES_UNAVAILABLE = "dependencies_unavailable"
    RUNTIME_MISSING = "runtime_missing"
    OVERLOADED = "overloaded"
    INTERNAL = "internal"
    UNAVAILABLE = "unavailable"
    MODEL_UNAVAILABLE = "model_unavailable"
    VECTOR_STORE_UNAVAILABLE = "vector_store_unavailable"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"


class ErrorClass(NamedTuple):
    """What a code means on the wire."""

    status: int
    retryable: bool
    title: str


ERROR_CLASSES: Final[dict[ErrorCode, ErrorClass]] = {
    ErrorCode.INVALID_REQUEST: ErrorClass(400, False, "The request does not follow the contract"),
    ErrorCode.UNAUTHORIZED: ErrorClass(401, False, "The request carries no valid key"),
    ErrorCode.FORBIDDEN: ErrorClass(403, False, "The request is not allowed"),
    ErrorCode.SKILL_NOT_FOUND: ErrorClass(404, False, "No such skill is installed"),
    ErrorCode.NOT_FOUND: ErrorClass(404, False, "There is no such thing"),
    ErrorCode.UNKNOWN_ACTION: ErrorClass(404, False, "The skill has no such action"),
    ErrorCode.CONFLICT: ErrorClass(409, True, "It clashes with what is there"),
    ErrorCode.PRECONDITION_FAILED: ErrorClass(412, False, "It has changed since it was read"),
    ErrorCode.NO_ENTRY_POINT: ErrorClass(409, False, "The skill has nothing to run: it is instructions only"),
    ErrorCode.NOT_CALLABLE: ErrorClass(409, False, "The tool is only described: its provider has to be asked"),
    ErrorCode.PAYLOAD_TOO_LARGE: ErrorClass(413, False, "The payload is over its limit"),
    ErrorCode.SKILL_REJECTED: ErrorClass(422, False, "The package is not a valid skill"),
    ErrorCode.INVALID_ARGUMENTS: ErrorClass(422, False, "The arguments do not fit the input schema"),
    ErrorCode.DEPENDENCIES_UNAVAILABLE: ErrorClass(424, False, "The packages that the skill needs cannot be had"),
    ErrorCode.RUNTIME_MISSING: ErrorClass(501, False, "The machine lacks the language that the skill is written in"),
    ErrorCode.OVERLOADED: ErrorClass(429, True, "All permits are taken"),
    ErrorCode.INTERNAL: ErrorClass(500, False, "The service failed; its log says why"),
    ErrorCode.UNAVAILABLE: ErrorClass(503, True, "Nobody answers this request now"),
    ErrorCode.MODEL_UNAVAILABLE: ErrorClass(503, True, "The embedding model cannot be had"),
    ErrorCode.VECTOR_STORE_UNAVAILABLE: ErrorClass(503, True, "The vector store cannot be reached"),
    ErrorCode.SANDBOX_UNAVAILABLE: ErrorClass(503, False, "This machine cannot isolate a run"),
    ErrorCode.DEADLINE_EXCEEDED: ErrorClass(504, True, "The deadline passed before the answer was there"),
}

ANY_REQUEST: Final = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.OVERLOADED,
    ErrorCode.INTERNAL,
    ErrorCode.UNAVAILABLE,
    ErrorCode.DEADLINE_EXCEEDED,
)
"""Errors that every request can meet, whatever it asks."""


class ErrorDetail(Message):
    """An error as it crosses the bus."""

    code: ErrorCode
    message: str
    """For people: what is wrong and what to do."""
    retryable: bool
    """Whether the same request can succeed later, unchanged."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """For programs: what the code alone does not say."""


class ErrorBody(Message):
    """The body of an error reply."""

    error: ErrorDetail


class RequestError(Exception):
    """A request that is answered with an error. Handlers raise it, callers receive it: one class on both sides."""

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
        """The HTTP-like status of the code."""
        return ERROR_CLASSES[self.code].status

    def body(self) -> ErrorBody:
        """The error as it crosses the bus."""
        detail = ErrorDetail(code=self.code, message=self.message, retryable=self.retryable, details=self.details)
        return ErrorBody(error=detail)
