"""Retry schedule for failed requests."""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_MOST_DIGITS: Final = 9
"""Longest accepted number of seconds in a `Retry-After`: thirty years."""


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Exponential backoff with full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS, 2015)."""

    tries: int = 3
    """All attempts, including the first."""
    base_s: float = 0.25
    """Longest wait after the first failure. It doubles with each failure."""
    cap_s: float = 4.0
    """Longest wait of our own choice."""
    patience_s: float = 60.0
    """Longest wait that a server may ask for; beyond it we give up."""

    def compute_delay_s(self, failed: int, requested_s: float | None, left_s: float, jitter: float) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up.

        Args:
            failed: Attempts so far, at least 1.
            requested_s: Wait requested by the server, in seconds. The delay is at least this plus a random part, so
                that clients turned away together do not return together.
            left_s: Seconds left until the deadline. A wait that leaves no time for the attempt itself is not started.
            jitter: Uniform in [0, 1).
        """
        if failed >= self.tries or (requested_s is not None and requested_s > self.patience_s):
            return None
        delay_s = jitter * min(self.cap_s, self.base_s * 2 ** (failed - 1)) + (requested_s or 0.0)
        return delay_s if delay_s < left_s else None


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Parse a `Retry-After` header (RFC 9110, section 10.2.3), whole seconds or an HTTP date, to seconds from `now`.

    `now` is a Unix time. Return None if the header is invalid.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MOST_DIGITS else float("inf")
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # A date of RFC 9110 is always in GMT; email's "-0000" and asctime's form are parsed without a zone.
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
