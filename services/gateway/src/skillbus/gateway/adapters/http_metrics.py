"""Counters and durations of HTTP requests by route template; the number of paths is unbounded."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpMetrics:
    """Metrics of HTTP requests: count by status, and duration."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
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
