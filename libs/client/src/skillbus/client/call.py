"""HTTP calls as values: what is sent, how a reply is parsed, and when a failed call is sent again.

It imports no HTTP library, which takes 0.1 s: help pages of the command line need not wait for it.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, TypedDict, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from pydantic import BaseModel, ValidationError

from skillbus.client.errors import (
    ApiError,
    NoReplyError,
    ServerUnreachableError,
    SkillbusError,
    UnexpectedReplyError,
    parse_error,
)
from skillbus.contracts.validation import describe_problems

if TYPE_CHECKING:
    import httpx

QueryParams = Mapping[str, str | Sequence[str]]
ReplyT = TypeVar("ReplyT", bound=BaseModel)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 30.0
_REFUSED: Final = frozenset({429, 503})
"""Statuses of requests that were refused before any work."""


class SentParts(TypedDict, total=False):
    """Optional parts of a request, under httpx's names."""

    params: QueryParams
    json: object
    data: Mapping[str, str]
    files: Mapping[str, tuple[str, bytes | BinaryIO, str]]
    content: bytes | Iterable[bytes] | AsyncIterable[bytes]
    headers: Mapping[str, str] | Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the server."""

    method: str
    path: str
    parts: SentParts = field(default_factory=SentParts)
    timeout_s: float | None = None
    """Longest silence of the server, in seconds. None means the client's default."""
    is_idempotent: bool = False
    """True if the call may be sent again after its reply was lost."""


@dataclass(slots=True)
class RetryPlan:
    """Decides whether a failed call is sent again, and after which pause.

    A call that did not reach the server is sent again, unless its body is a stream. An idempotent one is also
    sent again after a lost reply, and after a problem that the server says can pass. Pauses double, are spread at
    random, and follow `Retry-After`.
    """

    call: Call
    retries: int
    _tried: int = 0

    def next_pause_s(self, error: SkillbusError) -> float | None:
        """Return the pause before the next attempt, in seconds, or None if there is none."""
        if self._tried >= self.retries or not self._can_pass(error):
            return None
        self._tried += 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**self._tried) * random.uniform(0.5, 1)  # noqa: S311 (no secret)
        asked = error.details.get("retry_after_s") if isinstance(error, ApiError) else None
        if isinstance(asked, int | float):
            pause_s = max(pause_s, min(_LONGEST_PAUSE_S, float(asked)))
        return pause_s

    def _can_pass(self, error: SkillbusError) -> bool:
        if isinstance(error, ServerUnreachableError):
            return not isinstance(self.call.parts.get("content"), Iterator)
        if not self.call.is_idempotent:
            return False
        if isinstance(error, ApiError):
            return error.retryable and error.status in _REFUSED
        return isinstance(error, NoReplyError) and error.timeout_s is None


def join_path(base: str, *names: str) -> str:
    """Append names as segments. Dots are quoted too: HTTP clients remove the segments `.` and `..`."""
    return "/".join((base, *(quote(name, safe="").replace(".", "%2E") for name in names)))


def parse_reply(reply: type[ReplyT], text: str | bytes, response: httpx.Response) -> ReplyT:
    """Parse a reply, or a part of one that arrives as a stream.

    Raises:
        UnexpectedReplyError: The text is not a reply of this type.
    """
    try:
        return reply.model_validate_json(text)
    except ValidationError as error:
        problem = describe_problems(error, limit=1)
        raise build_unexpected(response, f"its reply does not parse: {problem}") from error


def build_unexpected(response: httpx.Response, problem: str) -> UnexpectedReplyError:
    """Return the error for a response that skillbus does not send."""
    return UnexpectedReplyError(str(response.url.copy_with(query=None)), problem)


def build_error(content: bytes, response: httpx.Response) -> ApiError | UnexpectedReplyError:
    """Return the error for a response that is not successful."""
    return parse_error(content, response.status_code, str(response.url.copy_with(query=None)))


def check_same_server(base: str, url: str) -> None:
    """Refuse a URL of another server, which must not receive the key.

    Raises:
        UnexpectedReplyError: The URL is another server's.
    """
    if _split_origin(urljoin(base, url)) != _split_origin(base):
        raise UnexpectedReplyError(url, "the file lies on another server, which must not receive the key")


def _split_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
