"""ASGI layer that refuses requests at once when more come than are answered."""

from functools import lru_cache
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from skillbus.common.admission.gate import AdmissionGate, ServerBusyError
from skillbus.gateway.adapters.problem_response import ShowProblem, make_problem_response
from skillbus.gateway.domain.access.principal import CALLER, Principal
from skillbus.gateway.domain.access.work_kind import find_work
from skillbus.gateway.domain.problem import make_problem

REFUSED_AT_ONCE: Final = "skillbus.refused_at_once"
"""Member of the ASGI scope of a request that the layer refused. Nobody logs a line for it: the gate logs sums."""
_PROGRAMS: Final = ("/api/", "/v1/", "/mcp")
"""Paths without pages for browsers."""
_SMALL_BYTES: Final = 16 * 1024


class AdmissionLayer:
    """Lets requests of known callers in by a gate, before their body is read."""

    def __init__(self, app: ASGIApp, gate: AdmissionGate, show_problem: ShowProblem) -> None:
        self._app = app
        self._gate = gate
        self._show_problem = show_problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get(CALLER)
        work = find_work(scope["method"], scope["path"]) if isinstance(caller, Principal) else None
        if work is None or not isinstance(caller, Principal):
            await self._app(scope, receive, send)
            return
        try:
            permit = await self._gate.admit(caller.name, work.kind, is_sample=work.is_sample)
        except ServerBusyError as busy:
            scope[REFUSED_AT_ONCE] = True
            await _take_small_body(scope, receive)
            await self._find_reply(scope, busy)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._gate.leave(permit)

    def _find_reply(self, scope: Scope, busy: ServerBusyError) -> Response:
        path: str = scope["path"]
        if path.startswith(_PROGRAMS):
            return _render_refusal(path, busy.retry_after_s)
        return self._show_problem(scope, make_problem(busy, path))


async def _take_small_body(scope: Scope, receive: Receive) -> None:
    """Read a small body, which has mostly come with the headers: otherwise its connection would have to be closed."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if length.isdigit() and 0 < int(length) <= _SMALL_BYTES:
        while (await receive()).get("more_body", False):
            pass


@lru_cache(maxsize=256)
def _render_refusal(path: str, retry_after_s: int) -> Response:
    """Return the reply for a path; paths and times repeat while a server refuses a thousand requests a second."""
    return make_problem_response(make_problem(ServerBusyError(retry_after_s), path))
