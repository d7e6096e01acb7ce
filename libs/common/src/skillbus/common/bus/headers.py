"""Headers of requests and replies, and the context that requests pass on."""

import contextvars
import time
from collections.abc import Mapping
from typing import Final

CONTENT_TYPE: Final = "Content-Type"
ACCEPT: Final = "Accept"
DEADLINE_MS: Final = "Skillbus-Deadline-Ms"
"""Unix time in milliseconds at which the caller stops waiting. Later work is not started."""
TRACEPARENT: Final = "traceparent"
MESSAGE_ID: Final = "Nats-Msg-Id"
PROJECT: Final = "Skillbus-Project"
"""Project of an event; on a request of the gateway, the one project that its caller's key was checked for."""
ERROR: Final = "Nats-Service-Error"
ERROR_CODE: Final = "Nats-Service-Error-Code"

deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("skillbus_deadline", default=None)
"""Deadline of the request being answered, in Unix seconds; requests made for it inherit it."""
traceparent: contextvars.ContextVar[str | None] = contextvars.ContextVar("skillbus_traceparent", default=None)
"""W3C trace context of the request being answered."""
project: contextvars.ContextVar[str | None] = contextvars.ContextVar("skillbus_project", default=None)
"""Project that the HTTP request being answered is bound to. Only the gateway sets it, from the caller's key."""


def parse_deadline(headers: Mapping[str, str]) -> float | None:
    """Return the deadline of a request in Unix seconds, or None. Raise ValueError if it is not a number."""
    given = headers.get(DEADLINE_MS)
    try:
        return int(given) / 1000 if given else None
    except OverflowError as error:
        raise ValueError("the number is too large for a time") from error


def remaining_s(timeout_s: float) -> float:
    """Return `timeout_s`, or less if the deadline of the request being answered comes earlier."""
    until = deadline.get()
    return timeout_s if until is None else min(timeout_s, until - time.time())
