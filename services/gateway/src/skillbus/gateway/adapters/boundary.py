"""Outermost layer: trace context, one log line and one count for each request, and a reply in every case."""

import re
import secrets
import time
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillbus.common.admission.gate import AdmissionMetrics
from skillbus.common.bus import headers as bus_headers
from skillbus.gateway.adapters.admission_layer import REFUSED_AT_ONCE
from skillbus.gateway.adapters.problem_response import make_internal_problem, make_problem_response

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, section 3.2."""
_UNMATCHED: Final = "unmatched"
TRACE: Final = "skillbus.trace"
"""Member of the ASGI scope: the `traceparent` of the request."""
_SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Headers of every reply: browsers neither guess its type, nor frame it, nor tell other sites its address."""

log = structlog.get_logger(__name__)


class HttpMetrics:
    """Counters and durations of HTTP requests by route template; the number of paths is unbounded."""

    def __init__(self, registry: CollectorRegistry, admission: AdmissionMetrics | None = None) -> None:
        self.admission = admission
        self._requests = Counter(
            "skillbus_http_requests",
            "HTTP requests that got a reply.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "skillbus_http_request_seconds",
            "Time to reply to an HTTP request.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=registry,
        )

    def count_reply(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a reply and its duration."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, status).inc()
        self._seconds.labels(known, route).observe(seconds)


class Boundary:
    """ASGI layer around the whole app."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("traceparent", "")
        new = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"
        trace = given if _TRACEPARENT.fullmatch(given) else new
        token = bus_headers.traceparent.set(trace)
        scope[TRACE] = trace
        reply = _Reply(send, trace)
        start = time.perf_counter()
        try:
            await self._app(scope, receive, reply.send)
        except Exception:
            log.exception("http_request_failed", method=scope["method"], route=_get_route(scope))
            if not reply.status:
                await make_problem_response(make_internal_problem(scope["path"]))(scope, receive, reply.send)
        finally:
            method, route, seconds = scope["method"], _get_route(scope), time.perf_counter() - start
            self._metrics.count_reply(method, route, reply.status, seconds)
            if REFUSED_AT_ONCE not in scope:
                log.info("http_request", method=method, route=route, status=reply.status, ms=round(seconds * 1000, 2))
            bus_headers.traceparent.reset(token)


class _Reply:
    """Reply that is being sent. `status` is 0 until it starts."""

    def __init__(self, send: Send, trace: str) -> None:
        self._send = send
        self._trace = trace
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])  # an HTTPStatus would be logged by its repr
            headers = MutableHeaders(scope=message)
            headers["traceparent"] = self._trace
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _get_route(scope: Scope) -> str:
    """Return the path template of the matched route."""
    return str(getattr(scope.get("route"), "path", _UNMATCHED))
