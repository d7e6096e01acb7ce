"""What the SDK raised, in words for operators that hold no secret."""

from collections.abc import Iterator, Sequence
from typing import Final

import httpx
from mcp.shared.exceptions import McpError
from pydantic import SecretStr, ValidationError

from skillbus.agent.domain.errors import ServerFailedError
from skillbus.common.secrets import redact_text

_SAID: Final = 300


def failure_of(error: BaseException, secrets: Sequence[SecretStr] = ()) -> ServerFailedError:
    """The error of the domain; what the server was given is blacked out of what it says."""
    first = next(_leaves(error))
    said = str(first) if isinstance(first, ServerFailedError) else _said(first)
    return ServerFailedError(redact_text(said, secrets, min_characters=4))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _said(error: BaseException) -> str:
    match error:
        case httpx.HTTPStatusError():
            said = _status(error.response)
        case httpx.TimeoutException() | TimeoutError():
            said = "it did not answer in time"
        case httpx.ConnectError():
            said = f"it cannot be reached: {str(error)[:_SAID] or 'no connection'}"
        case httpx.HTTPError() | httpx.InvalidURL():
            # Their messages can hold a header that was given.
            said = f"the connection failed: {type(error).__name__}"
        case McpError():
            said = f"it answers with the error {error.error.code}: {error.error.message[:_SAID]}"
        case ValidationError():
            said = f"it answers what MCP does not know: {error.title} with {error.error_count()} errors"
        case OSError():
            said = f"it cannot be started: {error.strerror or type(error).__name__}"
        case RuntimeError() | ValueError():
            said = str(error)[:_SAID]
        case _:
            said = f"the session ended with {type(error).__name__}"
    return said


def _status(response: httpx.Response) -> str:
    said = f"it answers HTTP {response.status_code} {response.reason_phrase}"
    if response.next_request is None:
        return said
    where = response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None)
    return f"{said} and points to {str(where)[:_SAID]}, which is not followed: register that address if it is right"
