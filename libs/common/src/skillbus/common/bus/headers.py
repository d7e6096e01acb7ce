"""Headers of requests and replies, and the context that they carry from one request to the next."""

import contextvars
import time
from collections.abc import Mapping
from typing import Final

CONTENT_TYPE: Final = "Content-Type"
ACCEPT: Final = "Accept"
DEADLINE_MS: Final = "Skillbus-Deadline-Ms"
"""When the caller stops waiting, as Unix time in milliseconds. Work that is past it is not begun."""
TRACEPARENT: Final = "traceparent"
MESSAGE_ID: Final = "Nats-Msg-Id"
PROJECT: Final = "Skillbus-Project"
ERROR: Final = "Nats-Service-Error"
ERROR_CODE: Final = "Nats-Service-Error-Code"

deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("skillbus_deadline", default=None)
"""Unix time in seconds by which the request being answered must be done; requests made for it inherit it."""
traceparent: contextvars.ContextVar[str | None] = contextvars.ContextVar("skillbus_traceparent", default=None)
"""W3C trace context of the request being answered."""


def deadline_of(headers: Mapping[str, str]) -> float | None:
    """Deadline of a request in Unix seconds; None when it has none. Raises ValueError when it is not a number."""
    given = headers.get(DEADLINE_MS)
    try:
        return int(given) / 1000 if given else None
    except OverflowError as error:
        raise ValueError("no time is that late") from error


def remaining_s(timeout_s: float) -> float:
    """How long to wait: `timeout_s`, or less when the request being answered must be done before."""
    until = deadline.get()
    return timeout_s if until is None else min(timeout_s, until - time.time())
