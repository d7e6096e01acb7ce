"""Admission in an event loop: requests wait for their turn here, and the lag of the loop is measured."""

import asyncio
import time
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from skillbus.common.admission.desk import AdmissionDesk, Permit, RefusedError
from skillbus.common.admission.fair_queue import WorkKind
from skillbus.common.admission.limit import AdaptiveLimit
from skillbus.contracts.errors import ErrorCode, RequestError

LOWEST: Final = 2
HIGHEST: Final = 256
_TICK_S: Final = 0.02
_SUMMARY_S: Final = 10.0

log = structlog.get_logger(__name__)


class ServerBusyError(RequestError):
    """Refusal of a request at once. Gates count these and log sums, so nobody else logs a line for each."""

    def __init__(self, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(
            ErrorCode.OVERLOADED,
            f"The server has more requests than it can answer soon: try again in {retry_after_s} s.",
            details={"retry_after_s": retry_after_s, "limit_of": "server"},
        )


class AdmissionMetrics:
    """Figures of every gate, by its name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def make_gauge(name: str, text: str) -> Gauge:
            return Gauge(f"skillbus_admission_{name}", text, ["gate"], registry=registry)

        self.limit = make_gauge("limit", "Requests that may be in flight now.")
        self.in_flight = make_gauge("in_flight", "Requests in flight.")
        self.waiting = make_gauge("waiting", "Requests that wait to be started.")
        self.lag_s = make_gauge("lag_seconds", "Lag of the event loop, measured while requests are in flight.")
        self.refused = Counter(
            "skillbus_admission_refused", "Requests refused with 429 at once.", ["gate", "kind"], registry=registry
        )


class AdmissionGate:
    """Lets requests in: at once, after their turn, or not at all."""

    def __init__(
        self, name: str, metrics: AdmissionMetrics | None = None, *, lowest: int = LOWEST, highest: int = HIGHEST
    ) -> None:
        """Make a gate with a limit between `lowest` and `highest`."""
        limit = AdaptiveLimit(lowest, highest, time.monotonic)
        self.desk: AdmissionDesk[asyncio.Future[Permit]] = AdmissionDesk(limit, time.monotonic)
        self._name = name
        self._ticking: asyncio.TimerHandle | None = None
        self._tick_due = 0.0
        self._told, self._told_at = 0, -_SUMMARY_S
        self._refused = {kind: metrics.refused.labels(name, kind.name.lower()) for kind in WorkKind} if metrics else {}
        if metrics:
            metrics.limit.labels(name).set_function(lambda: limit.current)
            metrics.in_flight.labels(name).set_function(lambda: self.desk.in_flight)
            metrics.waiting.labels(name).set_function(lambda: self.desk.waiting)
            metrics.lag_s.labels(name).set_function(lambda: self.desk.lag_s)

    async def admit(self, key: str = "", kind: WorkKind = WorkKind.READ, *, is_sample: bool = True) -> Permit:
        """Wait for the turn of a request, and return its permit, which must be given to `leave` when it has ended.

        Args:
            key: Whom the request belongs to. Keys that wait get equal shares.
            is_sample: False for requests whose time says nothing about the load.

        Raises:
            ServerBusyError: Too many requests wait, those of other keys or its own.
        """
        try:
            permit = self.desk.enter(key, kind, is_sample=is_sample)
        except RefusedError as refused:
            if self._refused:
                self._refused[kind].inc()
            raise ServerBusyError(refused.retry_after_s) from None
        if self._ticking is None:
            self._plan_tick()
        if permit is not None:
            return permit
        turn: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self.desk.wait(key, kind, turn, is_sample=is_sample)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(turn.result())
            raise

    def leave(self, permit: Permit) -> None:
        """End a request, and start the next."""
        self.desk.leave(permit)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while (started := self.desk.start_next()) is not None:
            turn, permit = started
            if turn.done():
                self.desk.leave(permit)  # its caller left
            else:
                turn.set_result(permit)

    def _plan_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick_due = time.monotonic() + _TICK_S
        self._ticking = loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        is_busy = self.desk.in_flight or self.desk.waiting
        self.desk.note_tick(max(0.0, now - self._tick_due) if is_busy else 0.0)
        for turn in self.desk.remove_late():
            if not turn.done():
                turn.set_exception(ServerBusyError(self.desk.estimate_retry_s()))
        self._start_waiting()
        refused = self.desk.refused.total()
        if refused > self._told and now - self._told_at >= _SUMMARY_S:
            log.warning("requests_refused", gate=self._name, count=refused - self._told, limit=self.desk.limit.current)
            self._told, self._told_at = refused, now
        self._ticking = None
        if self.desk.in_flight or self.desk.waiting:
            self._plan_tick()
