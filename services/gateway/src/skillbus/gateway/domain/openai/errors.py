"""Errors of `/v1` in OpenAI's format."""

from typing import Final

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.http import OpenAiError, OpenAiErrorBody, Problem

PREFIX: Final = "/v1/"
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES: Final = {
    ErrorCode.UNAUTHORIZED: "invalid_api_key",
    ErrorCode.OVERLOADED: "rate_limit_exceeded",
    ErrorCode.INTERNAL: "server_error",
}
"""Codes with another name in OpenAI's API."""


def convert_problem(problem: Problem) -> OpenAiErrorBody:
    """Return a problem document as an error in OpenAI's format."""
    param = _find_param(problem)
    code = "model_not_found" if (problem.code, param) == (ErrorCode.NOT_FOUND, "model") else None
    return OpenAiErrorBody(
        error=OpenAiError(
            message=problem.detail,
            type=_TYPES.get(problem.status, "invalid_request_error" if problem.status < 500 else "server_error"),
            param=param,
            code=code or _CODES.get(problem.code, problem.code.value),
        )
    )


def _find_param(problem: Problem) -> str | None:
    param = problem.details.get("param")
    fields = problem.details.get("fields")
    if param is None and isinstance(fields, list) and fields and isinstance(fields[0], dict):
        param = fields[0].get("field")
    return param if isinstance(param, str) else None
