"""Outermost layer: trace context, one log line and one count for each request, and a reply in every case."""

import re
import secrets
import time
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillbus.common.bus import headers as bus_headers
from skillbus.gateway.adapters.http_metrics import HttpMetrics
from skillbus.gateway.adapters.problem_response import make_internal_problem, make_problem_response

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, section 3.2."""
_UNMATCHED: Final = "unmatched"

log = structlog.get_logger(__name__)


class Boundary:
    """ASGI layer around the whole app."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace = _get_trace(scope)
        token = bus_headers.traceparent.set(trace)
        reply = _Reply(send, trace)
        start = time.perf_counter()
        try:
            await self._app(scope, receive, reply.send)
        except Exception:
            log.exception("http_request_failed", method=scope["method"], route=_get_route(scope))
            if not reply.status:
                await make_problem_response(make_internal_problem(scope["path"]))(scope, receive, reply.send)
        finally:
            self._record(scope, reply.status, time.perf_counter() - start)
            bus_headers.traceparent.reset(token)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = scope["method"], _get_route(scope)
        self._metrics.count_reply(method, route, status, seconds)
        log.info("http_request", method=method, route=route, status=status, ms=round(seconds * 1000, 2))


class _Reply:
    """Reply that is being sent. `status` is 0 until it starts."""

    def __init__(self, send: Send, trace: str) -> None:
        self._send = send
        self._trace = trace
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])  # an HTTPStatus would be logged by its repr
            MutableHeaders(scope=message)["traceparent"] = self._trace
        await self._send(message)


def _get_trace(scope: Scope) -> str:
    """Return the caller's trace context, or a new one if it is absent or malformed."""
    given = Headers(scope=scope).get("traceparent", "")
    return given if _TRACEPARENT.fullmatch(given) else f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"


def _get_route(scope: Scope) -> str:
    """Return the path template of the matched route."""
    return str(getattr(scope.get("route"), "path", _UNMATCHED))
