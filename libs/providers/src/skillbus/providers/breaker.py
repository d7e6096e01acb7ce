"""Circuit breaker: stops calls to a provider that failed several times in a row, and probes it after a pause.

closed ──failures in a row──> open ──cool-down──> half-open: one probe ──answered──> closed
                               ^                                └───────failed──> open again
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

Clock = Callable[[], float]
"""Monotonic time in seconds."""


class CallVerdict(Enum):
    """Outcome of an admitted call."""

    ANSWERED = auto()
    """The provider answered, even if only to refuse."""
    FAILED = auto()
    UNDECIDED = auto()
    """Unknown: the caller left first."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """Permission for one call. The holder must settle it."""

    probe: bool


class CircuitBreaker:
    """Breaker of one provider. Not thread-safe: owned by one event loop or thread."""

    def __init__(self, clock: Clock, *, failures: int = 5, cool_down_s: float = 30.0) -> None:
        """Open after `failures` in a row, and stay open for `cool_down_s`."""
        self._clock = clock
        self._failures = failures
        self._cool_down_s = cool_down_s
        self.failed_in_a_row = 0
        """Failures since the last answer."""
        self._opened_at: float | None = None
        self._probe: Admission | None = None

    @property
    def wait_s(self) -> float:
        """Seconds until a probe is allowed; 0 while closed."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._cool_down_s - self._clock())

    @property
    def admits(self) -> bool:
        """False while the breaker is open or its one probe is running."""
        return self._opened_at is None or (self.wait_s == 0 and self._probe is None)

    def describe_pause(self) -> str:
        """Describe why nothing is admitted, as the continuation of "provider <name> …"."""
        return f"failed {self.failed_in_a_row} times in a row; next try in {self.wait_s:.0f} s"

    def admit_call(self) -> Admission | None:
        """Return a permission to call, or None while nothing is admitted."""
        if not self.admits:
            return None
        if self._opened_at is None:
            return Admission(probe=False)
        self._probe = Admission(probe=True)
        return self._probe

    def settle_call(self, admission: Admission, verdict: CallVerdict) -> None:
        """Record the outcome. A call admitted before the breaker opened can close it, but cannot extend the pause."""
        if admission is self._probe:
            self._probe = None
        if verdict is CallVerdict.ANSWERED:
            self.failed_in_a_row = 0
            self._opened_at = None
        elif verdict is CallVerdict.FAILED:
            self.failed_in_a_row += 1
            if admission.probe or (self._opened_at is None and self.failed_in_a_row >= self._failures):
                self._opened_at = self._clock()
