"""Metrics of the bus, in a registry that the caller provides: one process may run several services."""

import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from skillbus.common.admission.gate import AdmissionMetrics

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class EndpointMetrics:
    """Metrics of one endpoint. Each is looked up by its labels once, when it is first needed."""

    def __init__(self, bus: "BusMetrics", service: str, endpoint: str) -> None:
        self._bus = bus
        self._labels = (service, endpoint)
        self._requests: dict[str, Counter] = {}
        self._seconds: Histogram | None = None

    def count_answer(self, code: str, start_ns: int) -> None:
        """Count an answer and its duration; `start_ns` is a value of `time.perf_counter_ns`."""
        if (requests := self._requests.get(code)) is None:
            self._requests[code] = requests = self._bus.requests.labels(*self._labels, code)
        if self._seconds is None:
            self._seconds = self._bus.seconds.labels(*self._labels)
        requests.inc()
        self._seconds.observe((time.perf_counter_ns() - start_ns) / 1e9)


class BusMetrics:
    """Counts of answered requests and consumed events, by outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.admission = AdmissionMetrics(registry)
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

    def get_endpoint(self, service: str, endpoint: str) -> EndpointMetrics:
        """Return the metrics of one endpoint."""
        return EndpointMetrics(self, service, endpoint)
