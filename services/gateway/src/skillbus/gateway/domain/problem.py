"""Errors as problem documents (RFC 9457)."""

from http import HTTPStatus
from typing import Final

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.http import Problem

MEDIA_TYPE: Final = "application/problem+json"
_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: ErrorCode.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: ErrorCode.FORBIDDEN,
    HTTPStatus.NOT_FOUND: ErrorCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorCode.PAYLOAD_TOO_LARGE,
}


def make_problem(error: RequestError, instance: str) -> Problem:
    """Return the problem document of an error. `instance` is the path of the request."""
    return Problem(
        type=f"urn:skillbus:error:{error.code}",
        title=ERROR_CLASSES[error.code].title,
        status=error.status,
        detail=error.message,
        instance=instance,
        code=error.code,
        retryable=error.retryable,
        details=error.details,
    )


def make_http_problem(status: int, detail: str, instance: str) -> Problem:
    """Return the problem document of an error of HTTP itself, such as 405."""
    known = HTTPStatus(status)
    code = _CODES.get(known, ErrorCode.INVALID_REQUEST if status < 500 else ErrorCode.INTERNAL)
    problem = make_problem(RequestError(code, detail, retryable=False), instance)
    return problem if problem.status == status else problem.model_copy(update={"status": status, "title": known.phrase})
