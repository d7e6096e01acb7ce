"""ASGI layer that finds the caller of each request, before anything but the headers is read."""

import re
from contextlib import AbstractContextManager
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.common.bus.headers import Origin
from skillbus.contracts.audit_log import AuditDoor
from skillbus.contracts.errors import RequestError
from skillbus.contracts.gateway.api_keys import ALL_PROJECTS
from skillbus.contracts.gateway.sessions import CSRF_HEADER
from skillbus.gateway.adapters.problem_response import ShowProblem
from skillbus.gateway.domain.access.authenticator import Authenticator, Visit
from skillbus.gateway.domain.access.principal import CALLER, AccessRefusedError, get_caller
from skillbus.gateway.domain.access.rate_limit import RateLimiter
from skillbus.gateway.domain.access.session import LANGUAGE_COOKIE
from skillbus.gateway.domain.problem import make_problem

_LIMITER: Final = "skillbus.limiter"
"""Member of the ASGI scope."""
_SECRETS: Final = frozenset({b"authorization", b"cookie", CSRF_HEADER.lower().encode()})
"""Headers that only the guard reads."""
_LANGUAGE: Final = re.compile(rb"(?:^|;\s*)(" + LANGUAGE_COOKIE.encode() + rb"=[a-z]{2})\s*(?:;|$)")
"""The one cookie that is no secret."""
_RECORDER: Final = "skillbus.recorder"
"""Member of the ASGI scope."""
_ACT: Final = "skillbus.act"
"""Member of the ASGI scope: name of the operation, if refusals of it are recorded."""
_POLICY_VIOLATION: Final = 1008


class Guard:
    """Refuses requests without a valid key or session, keys that make too many requests, and websockets."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        limiter: RateLimiter,
        recorder: ActRecorder,
        show_problem: ShowProblem,
    ) -> None:
        self._app = app
        self._show_problem = show_problem
        self._authenticator = authenticator
        self._limiter = limiter
        self._recorder = recorder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # No route is one. It would reach the routes without a check of its key.
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        if scope["type"] == "http":
            try:
                caller = self._authenticator.authenticate(_read_visit(scope))
                if caller is not None:
                    self._limiter.admit_request(caller)
            except RequestError as error:
                await self._show_problem(scope, make_problem(error, scope["path"]))(scope, receive, send)
                return
            scope[CALLER], scope[_LIMITER], scope[_RECORDER] = caller, self._limiter, self._recorder
            # They are no longer needed, and what is removed cannot end up in a log.
            language = _LANGUAGE.search(b"; ".join(value for name, value in scope["headers"] if name == b"cookie"))
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in _SECRETS]
            if language is not None:
                scope["headers"].append((b"cookie", language[1]))
        await self._app(scope, receive, send)


def _read_visit(scope: Scope) -> Visit:
    # A function, so that the key is in no local variable while the request is handled.
    headers = Headers(scope=scope)
    return Visit(
        method=scope["method"],
        path=scope["path"],
        host=headers.get("host"),
        origin=headers.get("origin"),
        authorization=headers.get("authorization"),
        cookie="; ".join(headers.getlist("cookie")) or None,
        csrf_token=headers.get(CSRF_HEADER),
    )


def hold_run(scope: Scope) -> AbstractContextManager[None]:
    """Return a context that counts as a run of the caller. Entering it raises RequestError if there are too many."""
    limiter: RateLimiter = scope[_LIMITER]
    return limiter.hold_run(get_caller(scope))


def hold_stream(scope: Scope) -> AbstractContextManager[None]:
    """Return a context that counts as a stream of the caller. Entering it raises RequestError if there are too many."""
    limiter: RateLimiter = scope[_LIMITER]
    return limiter.hold_stream(get_caller(scope))


def admit_suggestion(scope: Scope) -> None:
    """Count a suggestion of the caller. Raises RequestError if the key made too many."""
    limiter: RateLimiter = scope[_LIMITER]
    limiter.admit_suggestion(get_caller(scope))


def make_origin(scope: Scope) -> Origin:
    """Return the origin of a request for the audit log: its key, whatever its headers say, and its client's address."""
    client = scope.get("client")
    return Origin(AuditDoor.HTTP, get_caller(scope).name, None if client is None else str(client[0]))


def declare_act(scope: Scope, act: str) -> None:
    """Declare the request as one whose refusal is recorded, under the name of its operation."""
    scope[_ACT] = act


async def record_refusal(scope: Scope, error: RequestError) -> None:
    """Record that a key asked for what it may not do, if that is an act for editors or administrators."""
    act: str | None = scope.get(_ACT)
    if act is None or not isinstance(error, AccessRefusedError):
        return
    recorder: ActRecorder = scope[_RECORDER]
    named = get_caller(scope).projects
    project = next(iter(named)) if len(named) == 1 and ALL_PROJECTS not in named else None
    await recorder.record_refusal(recorder.make_fact(act, project, make_origin(scope)), error.code)
