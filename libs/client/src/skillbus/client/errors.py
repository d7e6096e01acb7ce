"""Errors of the client, one class for each code of the API.

```text
SkillbusError
├── WrongArgumentError       an argument of a method breaks the contract; a ValueError too
├── ServerUnreachableError   no server listens at the address
├── NoReplyError             the connection broke off, or the reply did not arrive in time
├── UnexpectedReplyError     the reply is from another program, or from another version of skillbus
└── ApiError                 the server sent a problem document; `code` says which
    └── NotFoundError, ForbiddenError, …   one class for each code
```

Unknown, missing and positional arguments raise `TypeError` as with any function. Nothing is sent then, nor after a
`WrongArgumentError`.
"""

import json
from collections.abc import Mapping
from typing import Final

from skillbus.contracts.errors import ErrorCode


class SkillbusError(Exception):
    """A request failed."""


class WrongArgumentError(SkillbusError, ValueError):
    """An argument breaks the contract, so nothing was sent. The message names the argument and its bounds."""


class ServerUnreachableError(SkillbusError):
    """No server listens at the address. Nothing was sent."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url} ({reason}): start it with `skillbus up`, or give its address")
        self.url = url
        self.reason = reason


class NoReplyError(SkillbusError):
    """The connection broke off, or the reply did not arrive in time. The server may have done the work."""

    def __init__(self, reason: str, *, timeout_s: float | None = None) -> None:
        super().__init__(reason if timeout_s is None else f"no answer within {timeout_s:g} s")
        self.reason = reason
        self.timeout_s = timeout_s
        """Time that passed without a reply. None if the connection broke off."""


class UnexpectedReplyError(SkillbusError):
    """The reply is from another program, or from another version of skillbus."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url}: {problem}: check that this is the address of a skillbus server of this version")
        self.url = url
        self.problem = problem


class ApiError(SkillbusError):
    """Problem document of the server (RFC 9457). Codes that this client does not know raise this class itself."""

    def __init__(self, document: Mapping[str, object], status: int) -> None:
        self.document: Final = dict(document)
        """The whole problem document."""
        self.status: Final = status
        self.code: Final = str(document.get("code") or "")
        """Kind of error, one of `skillbus.contracts.errors.ErrorCode`."""
        self.detail: Final = str(document.get("detail") or document.get("title") or "")
        """Cause of the error and what to do about it, for people."""
        self.retryable: Final = bool(document.get("retryable"))
        """True if the same request, unchanged, can succeed later."""
        details = document.get("details")
        self.details: Final[dict[str, object]] = dict(details) if isinstance(details, dict) else {}
        """Data about the error, for programs. `fields` lists each invalid field of a request."""
        super().__init__(f"{self.code or status}: {self.detail}")


class InvalidRequestError(ApiError):
    """The request does not follow the contract. `details["fields"]` lists the invalid fields."""


class UnauthorizedError(ApiError):
    """The request carries no valid key."""


class ForbiddenError(ApiError):
    """The key may not do this, or the skill is disabled."""


class NotFoundError(ApiError):
    """The requested resource does not exist."""


class SkillNotFoundError(NotFoundError):
    """No such skill is installed."""


class UnknownActionError(NotFoundError):
    """The skill has no such action."""


class RequestConflictError(ApiError):
    """The request conflicts with the current state."""


class PreconditionFailedError(ApiError):
    """The resource has changed since it was read."""


class NoEntryPointError(ApiError):
    """The skill has no script to run, only instructions."""


class NotCallableError(ApiError):
    """The tool can be found but not called: ask its provider."""


class ApprovalRequiredError(ApiError):
    """The call needs the approval of a person."""


class WorkCancelledError(ApiError):
    """The work was cancelled before it ended."""


class PayloadTooLargeError(ApiError):
    """The payload exceeds its size limit."""


class SkillRejectedError(ApiError):
    """The package is not a valid skill."""


class InvalidArgumentsError(ApiError):
    """The arguments do not match the input schema of the tool."""


class DependenciesUnavailableError(ApiError):
    """The packages that the skill needs cannot be installed."""


class RuntimeMissingError(ApiError):
    """The runtime of the skill is not installed on the server's machine."""


class ServerOverloadedError(ApiError):
    """The service is at its limit of concurrent requests, or the key made too many."""


class ServerFailedReplyError(ApiError):
    """The service failed; see its log."""


class ServiceUnavailableError(ApiError):
    """A service is not reachable."""


class NoModelAvailableError(ServiceUnavailableError):
    """No model is available, or not the one that was named."""


class VectorStoreUnavailableError(ServiceUnavailableError):
    """The vector store is not reachable."""


class SandboxUnavailableError(ServiceUnavailableError):
    """The server's machine cannot isolate runs."""


class StorageFullError(ApiError):
    """The server's disk has no room for new data."""


class DeadlineExceededError(ApiError):
    """The deadline passed before a service replied."""


ERRORS: Final[Mapping[ErrorCode, type[ApiError]]] = {
    ErrorCode.INVALID_REQUEST: InvalidRequestError,
    ErrorCode.UNAUTHORIZED: UnauthorizedError,
    ErrorCode.FORBIDDEN: ForbiddenError,
    ErrorCode.SKILL_NOT_FOUND: SkillNotFoundError,
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.UNKNOWN_ACTION: UnknownActionError,
    ErrorCode.CONFLICT: RequestConflictError,
    ErrorCode.PRECONDITION_FAILED: PreconditionFailedError,
    ErrorCode.NO_ENTRY_POINT: NoEntryPointError,
    ErrorCode.NOT_CALLABLE: NotCallableError,
    ErrorCode.APPROVAL_REQUIRED: ApprovalRequiredError,
    ErrorCode.CANCELLED: WorkCancelledError,
    ErrorCode.PAYLOAD_TOO_LARGE: PayloadTooLargeError,
    ErrorCode.SKILL_REJECTED: SkillRejectedError,
    ErrorCode.INVALID_ARGUMENTS: InvalidArgumentsError,
    ErrorCode.DEPENDENCIES_UNAVAILABLE: DependenciesUnavailableError,
    ErrorCode.RUNTIME_MISSING: RuntimeMissingError,
    ErrorCode.OVERLOADED: ServerOverloadedError,
    ErrorCode.INTERNAL: ServerFailedReplyError,
    ErrorCode.UNAVAILABLE: ServiceUnavailableError,
    ErrorCode.MODEL_UNAVAILABLE: NoModelAvailableError,
    ErrorCode.VECTOR_STORE_UNAVAILABLE: VectorStoreUnavailableError,
    ErrorCode.SANDBOX_UNAVAILABLE: SandboxUnavailableError,
    ErrorCode.STORAGE_FULL: StorageFullError,
    ErrorCode.DEADLINE_EXCEEDED: DeadlineExceededError,
}
"""Exception of every code. The names below `/v1`, which follow OpenAI's API, are mapped by `OPENAI_CODES`."""
OPENAI_CODES: Final[Mapping[str, ErrorCode]] = {
    "invalid_api_key": ErrorCode.UNAUTHORIZED,
    "rate_limit_exceeded": ErrorCode.OVERLOADED,
    "server_error": ErrorCode.INTERNAL,
}


def parse_error(content: bytes, status: int, url: str) -> ApiError | UnexpectedReplyError:
    """Return the exception for an error reply: a problem document, or an error in OpenAI's form, as below `/v1`."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        error = document["error"]
        code = OPENAI_CODES.get(str(error.get("code")), error.get("code"))
        document = {"detail": error.get("message"), "code": code}
    if not isinstance(document, dict) or not {"title", "detail", "code"} & document.keys():
        return UnexpectedReplyError(url, f"it answered {status} without a problem document")
    known = {str(code): error for code, error in ERRORS.items()}
    said = document.get("status")
    return known.get(str(document.get("code")), ApiError)(document, said if isinstance(said, int) else status)
