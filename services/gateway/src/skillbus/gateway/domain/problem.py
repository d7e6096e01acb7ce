"""Errors as problem documents (RFC 9457)."""

from http import HTTPStatus
from typing import Final

from pydantic import Field, JsonValue

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.message import Message

MEDIA_TYPE: Final = "application/problem+json"
_RETRY_AFTER_S: Final = {HTTPStatus.TOO_MANY_REQUESTS: 1, HTTPStatus.SERVICE_UNAVAILABLE: 2}
_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: ErrorCode.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: ErrorCode.FORBIDDEN,
    HTTPStatus.NOT_FOUND: ErrorCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorCode.PAYLOAD_TOO_LARGE,
}


class Problem(Message):
    """What went wrong with a request."""

    type: str
    """`urn:skillbus:error:<code>`."""
    title: str
    status: int
    detail: str
    """For people: what is wrong and what to do."""
    instance: str
    """The path that was asked for."""
    code: ErrorCode
    retryable: bool
    """Whether the same request can succeed later, unchanged."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """For programs: what the code alone does not say; `fields` lists what is wrong in a request, one by one."""

    @property
    def retry_after_s(self) -> int | None:
        """When to try again, for those statuses that have it."""
        return _RETRY_AFTER_S.get(HTTPStatus(self.status))


def problem_of(error: RequestError, instance: str) -> Problem:
    """The problem document of a contract's error."""
    return Problem(
        type=_type_of(error.code),
        title=ERROR_CLASSES[error.code].title,
        status=error.status,
        detail=error.message,
        instance=instance,
        code=error.code,
        retryable=error.retryable,
        details=error.details,
    )


def http_problem(status: int, detail: str, instance: str) -> Problem:
    """The problem document of an error that HTTP itself knows, like 405."""
    known = HTTPStatus(status)
    code = _CODES.get(known, ErrorCode.INVALID_REQUEST if status < 500 else ErrorCode.INTERNAL)
    title = ERROR_CLASSES[code].title if ERROR_CLASSES[code].status == status else known.phrase
    return Problem(
        type=_type_of(code), title=title, status=status, detail=detail, instance=instance, code=code, retryable=False
    )


def _type_of(code: ErrorCode) -> str:
    return f"urn:skillbus:error:{code}"
