"""Errors of the SDK as messages for operators, without secrets."""

from collections.abc import Iterator, Sequence
from typing import Final

import httpx
from mcp.shared.exceptions import McpError
from pydantic import SecretStr, ValidationError

from skillbus.agent.domain.errors import ServerFailedError
from skillbus.common.secrets import redact_text

_MESSAGE_CHARACTERS: Final = 300
_MIN_SECRET_CHARACTERS: Final = 4
"""Messages are short, so shorter secrets are redacted than in answers of tools."""


def describe_failure(error: BaseException, secrets: Sequence[SecretStr] = ()) -> ServerFailedError:
    """Convert an error of the SDK. The values that the server was given are redacted."""
    first = next(_iterate_leaves(error))
    message = str(first) if isinstance(first, ServerFailedError) else _describe(first)
    return ServerFailedError(redact_text(message, secrets, _MIN_SECRET_CHARACTERS))


def _iterate_leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _iterate_leaves(inner)
    else:
        yield error


def _describe(error: BaseException) -> str:
    match error:
        case httpx.HTTPStatusError():
            message = _describe_status(error.response)
        case httpx.TimeoutException() | TimeoutError():
            message = "it did not answer in time"
        case httpx.ConnectError():
            message = f"it cannot be reached: {str(error)[:_MESSAGE_CHARACTERS] or 'no connection'}"
        case httpx.HTTPError() | httpx.InvalidURL():
            # Their messages can contain a header that the server was given.
            message = f"the connection failed: {type(error).__name__}"
        case McpError():
            message = f"it answers with the error {error.error.code}: {error.error.message[:_MESSAGE_CHARACTERS]}"
        case ValidationError():
            message = f"its answer is not valid MCP: {error.title} with {error.error_count()} errors"
        case OSError():
            message = f"it cannot be started: {error.strerror or type(error).__name__}"
        case RuntimeError() | ValueError():
            message = str(error)[:_MESSAGE_CHARACTERS]
        case _:
            message = f"the session ended with {type(error).__name__}"
    return message


def _describe_status(response: httpx.Response) -> str:
    status = f"it answers HTTP {response.status_code} {response.reason_phrase}"
    if response.next_request is None:
        return status
    url = str(response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None))[:_MESSAGE_CHARACTERS]
    return f"{status} and redirects to {url}, which is not followed: register that address if it is right"
