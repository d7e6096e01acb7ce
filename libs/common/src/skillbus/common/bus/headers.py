"""Headers of requests and replies, and the context that requests pass on."""

import contextvars
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillbus.contracts import audit_log

CONTENT_TYPE: Final = "Content-Type"
ACCEPT: Final = "Accept"
DEADLINE_MS: Final = "Skillbus-Deadline-Ms"
"""Unix time in milliseconds at which the caller stops waiting. Later work is not started."""
TRACEPARENT: Final = "traceparent"
MESSAGE_ID: Final = "Nats-Msg-Id"
PROJECT: Final = "Skillbus-Project"
"""Project of an event; on a request of the gateway, the one project that its caller's key was checked for."""
ACTOR: Final = "Skillbus-Actor"
"""Caller of an administrative act: the key that the gateway checked, or what a caller on the bus says about itself."""
DOOR: Final = "Skillbus-Door"
"""`http` on requests of the gateway."""
ADDRESS: Final = "Skillbus-Address"
"""Address of the HTTP client, on requests of the gateway."""
REQUEST_INFO: Final = "Nats-Request-Info"
"""JSON that the server adds to a request from another account. A caller cannot set it: the server overwrites it."""
ERROR: Final = "Nats-Service-Error"
ERROR_CODE: Final = "Nats-Service-Error-Code"

deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("skillbus_deadline", default=None)
"""Deadline of the request being answered, in Unix seconds; requests made for it inherit it."""
traceparent: contextvars.ContextVar[str | None] = contextvars.ContextVar("skillbus_traceparent", default=None)
"""W3C trace context of the request being answered."""
project: contextvars.ContextVar[str | None] = contextvars.ContextVar("skillbus_project", default=None)
"""Project that the HTTP request being answered is bound to. Only the gateway sets it, from the caller's key."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.:@%+-]{1,100}")
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.:@%+-]+")


@dataclass(frozen=True, slots=True)
class Origin:
    """Caller of a request, for the audit log."""

    door: audit_log.AuditDoor
    actor: str | None = None
    address: str | None = None
    account: str | None = None


origin: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("skillbus_origin", default=None)
"""Origin of the request being answered; requests made for it pass it on. The gateway sets it from the caller's key."""


def make_origin_headers(own_name: str) -> dict[str, str]:
    """Return the headers that tell who asks. `own_name` is used if nobody asked this process."""
    known = origin.get()
    if known is None:
        return {ACTOR: _NOT_OF_A_NAME.sub("_", own_name)[:100] or "_"}
    headers = {DOOR: known.door.value, ACTOR: known.actor, ADDRESS: known.address}
    return {name: value for name, value in headers.items() if value}


def parse_origin(headers: Mapping[str, str]) -> Origin:
    """Return the origin of a request. The door `http` is believed only within the account of the gateway.

    The agent passes calls on: their address stays a claim, by the door `bus` and with the account of the agent.
    """
    account = _parse_account(headers.get(REQUEST_INFO))
    actor, address = _parse_name(headers.get(ACTOR)), _parse_name(headers.get(ADDRESS))
    is_http = headers.get(DOOR) == audit_log.AuditDoor.HTTP
    if is_http and account in {None, audit_log.CORE_ACCOUNT}:
        return Origin(audit_log.AuditDoor.HTTP, actor, address, account)
    is_passed_on = is_http and account == audit_log.AGENT_ACCOUNT
    return Origin(audit_log.AuditDoor.BUS, actor, address if is_passed_on else None, account)


def _parse_name(text: str | None) -> str | None:
    return text if text and _NAME.fullmatch(text) else None


def _parse_account(request_info: str | None) -> str | None:
    """Return the account in the server's header. An unreadable one counts as a foreign account."""
    if request_info is None:
        return None
    try:
        account = json.loads(request_info)["acc"]
    except (ValueError, KeyError, TypeError):
        return "unknown"
    return _parse_name(str(account)) or "unknown"


def parse_deadline(headers: Mapping[str, str]) -> float | None:
    """Return the deadline of a request in Unix seconds, or None. Raise ValueError if it is not a number."""
    given = headers.get(DEADLINE_MS)
    try:
        return int(given) / 1000 if given else None
    except OverflowError as error:
        raise ValueError("the number is too large for a time") from error


def caller_waits_s(usual_s: float) -> float:
    """Return the seconds until the deadline of the request being answered, `usual_s` for one without a deadline."""
    until = deadline.get()
    return usual_s if until is None else until - time.time()


def remaining_s(timeout_s: float) -> float:
    """Return `timeout_s`, or less if the deadline of the request being answered comes earlier."""
    until = deadline.get()
    return timeout_s if until is None else min(timeout_s, until - time.time())
