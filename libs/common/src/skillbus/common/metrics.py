"""Counters and times of the bus, in a registry that is passed in: one process may hold several services."""

import time
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


@dataclass(frozen=True, slots=True)
class EndpointMetrics:
    """Metrics of one endpoint."""

    bus: "BusMetrics"
    service: str
    endpoint: str

    def served(self, code: str, start_ns: int) -> None:
        """Count an answer; `start_ns` is of `time.perf_counter_ns`."""
        self.bus.requests.labels(self.service, self.endpoint, code).inc()
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
        self.bus.seconds.labels(self.service, self.endpoint).observe(seconds)


class BusMetrics:
    """Requests answered and events consumed, by outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "skillbus_requests", "Requests answered.", ["service", "endpoint", "code"], registry=registry
        )
        self.seconds = Histogram(
            "skillbus_request_seconds",
            "Time to answer a request.",
            ["service", "endpoint"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.events = Counter(
            "skillbus_events", "Events consumed.", ["stream", "consumer", "outcome"], registry=registry
        )

    def of(self, service: str, endpoint: str) -> EndpointMetrics:
        """The metrics of one endpoint."""
        return EndpointMetrics(self, service, endpoint)
