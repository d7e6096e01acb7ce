"""A circuit breaker: who failed several times in a row is left alone for a while, and then asked once.

closed ──failures in a row──> open ──cool-down──> half-open: one probe ──answered──> closed
                               ^                                └───────failed──> open again
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

Clock = Callable[[], float]
"""Seconds that only ever grow."""


class Verdict(Enum):
    """What came of what was let through."""

    ANSWERED = auto()
    """It answered, if only to refuse."""
    FAILED = auto()
    UNDECIDED = auto()
    """Nothing is known: the caller went away first."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """Leave to ask once, to be settled."""

    probe: bool


class CircuitBreaker:
    """Owned by one event loop or thread."""

    def __init__(self, clock: Clock, *, failures: int = 5, cool_down_s: float = 30.0) -> None:
        """It opens after `failures` in a row."""
        self._clock = clock
        self._failures = failures
        self._cool_down_s = cool_down_s
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probe: Admission | None = None

    @property
    def in_a_row(self) -> int:
        """Failures since it last answered."""
        return self._in_a_row

    @property
    def wait_s(self) -> float:
        """Seconds until a probe may be made; 0 if anything may."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._cool_down_s - self._clock())

    @property
    def admits(self) -> bool:
        """False while it is open, or its one probe is under way."""
        return self._opened_at is None or (self.wait_s == 0 and self._probe is None)

    def admit(self) -> Admission | None:
        """Leave to ask, to be settled in any case; None if it admits nothing."""
        if not self.admits:
            return None
        if self._opened_at is None:
            return Admission(probe=False)
        self._probe = Admission(probe=True)
        return self._probe

    def settle(self, admission: Admission, verdict: Verdict) -> None:
        """Tell what came of it. What was admitted before it opened can close it, and cannot keep it open longer."""
        if admission is self._probe:
            self._probe = None
        if verdict is Verdict.ANSWERED:
            self._in_a_row = 0
            self._opened_at = None
        elif verdict is Verdict.FAILED:
            self._in_a_row += 1
            if admission.probe or (self._opened_at is None and self._in_a_row >= self._failures):
                self._opened_at = self._clock()
