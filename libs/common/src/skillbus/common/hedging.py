"""Hedged requests: when a request whose answer is late is sent once more, and how often.

A replica that was killed, or that hangs, answers nothing, and its callers would wait out their deadline. A second copy
goes to the queue group when the answer is later than nearly all others of that endpoint, and the first answer wins:
Dean and Barroso, "The Tail at Scale", Communications of the ACM 56 (2013), section "Within Request Short-Term
Adaptations".

Copies must not double the load of a service that is slow because it is overloaded. So they come out of a budget, as
retries do in gRPC (proposal A6, "Throttling Retry Attempts and Hedged RPCs"): each request adds a twentieth of a copy.
Each second adds two. Without them nothing would be added when all callers wait for a replica that hangs and all their
copies have gone there too.
A copy that is answered in less than half the time that the first one has waited shows that a replica hangs and another
one has time. What such a request spent is returned, and for some seconds its endpoint asks again sooner and more often:
the server still gives the replica that hangs its share of all copies.
"""

import math
from collections import deque
from typing import Final

_FLOOR_S: Final = 0.2
_FLOOR_WHILE_HANGING_S: Final = 0.05
_HANGS_FOR_S: Final = 10.0
_PERCENTILE: Final = 0.99
_WINDOW: Final = 256
_MEASURE_EVERY: Final = 32
_KNOWN_AFTER: Final = 10
"""Answers after which it is known how long an endpoint takes: before, only one copy is sent."""
_SHARE: Final = 0.05
_COPIES_PER_S: Final = 2.0
_BURST: Final = 10.0
_BURST_WHILE_HANGING: Final = 100.0
_COPIES: Final = 4
_COPIES_WHILE_HANGING: Final = 16
_QUICK: Final = 0.5


class AnswerTimes:
    """Durations of the answers of an endpoint, and the budget for copies of its requests. Times are in seconds."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._unmeasured = 0
        self._late_s = 0.0
        self._budget = _BURST
        self._earned_until = 0.0
        self._hangs_until = -math.inf

    def begin_request(self, now: float) -> float:
        """Count a request, and return the time to wait for its answer before a copy is sent."""
        self._earn(_SHARE)
        return self.get_wait(now)

    def get_wait(self, now: float) -> float:
        """Return the time to wait for an answer before a copy is sent: the 99th percentile, or a floor."""
        return max(self._late_s, _FLOOR_WHILE_HANGING_S if now < self._hangs_until else _FLOOR_S)

    def take_copy(self, now: float, spent: int) -> bool:
        """Take a copy out of the budget for a request that has spent so many, if it may have one more."""
        most = _COPIES if len(self._recent) >= _KNOWN_AFTER else 1
        if now < self._hangs_until:
            most = _COPIES_WHILE_HANGING
        self._earn(_COPIES_PER_S * (now - self._earned_until))
        self._earned_until = now
        if spent >= most or self._budget < 1:
            return False
        self._budget -= 1
        return True

    def _earn(self, copies: float) -> None:
        if self._budget < _BURST:
            self._budget = min(self._budget + copies, _BURST)

    def return_copy(self) -> None:
        """Return a copy that found nobody."""
        self._budget += 1

    def note_answer(self, took_s: float) -> None:
        """Note how long an answer took since its own copy was sent."""
        self._recent.append(took_s)
        self._unmeasured += 1
        if self._unmeasured >= _MEASURE_EVERY or len(self._recent) < _MEASURE_EVERY:
            self._unmeasured = 0
            self._late_s = sorted(self._recent)[math.ceil(_PERCENTILE * len(self._recent)) - 1]

    def note_copy_won(self, now: float, took_s: float, waited_s: float, spent: int) -> bool:
        """Note that a copy was answered before the first one, which had waited so long when that copy was sent.

        Returns True if this is the first sign for some time that a replica hangs.
        """
        if took_s > _QUICK * waited_s:
            return False
        is_news = now >= self._hangs_until
        self._hangs_until = now + _HANGS_FOR_S
        # One more than it spent: half of the copies go to the replica that hangs and hold what they took.
        self._budget = min(self._budget + spent + 1, _BURST_WHILE_HANGING)
        return is_news
