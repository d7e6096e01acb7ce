"""When a request that failed is made again."""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_MOST_DIGITS: Final = 9  # of seconds: thirty years


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Exponential backoff with full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS, 2015)."""

    tries: int = 3
    """In all, the first one counted."""
    base_s: float = 0.25
    """The longest wait after the first failure; it doubles with each."""
    cap_s: float = 4.0
    """The longest wait that is our own choice."""
    patience_s: float = 60.0
    """A server that asks for a longer wait is not waited for."""

    def delay_s(self, failed: int, asked_s: float | None, left_s: float, jitter: float) -> float | None:
        """Seconds until the next try; None to give up.

        Args:
            failed: Tries so far, at least 1.
            asked_s: The wait that the server asks for, in seconds. We wait no less, and a little more, so that all
                whom it turned away do not come back together.
            left_s: Seconds that are left for everything; a wait that leaves none for the try itself is not begun.
            jitter: Uniform in [0, 1).
        """
        if failed >= self.tries or (asked_s is not None and asked_s > self.patience_s):
            return None
        delay = jitter * min(self.cap_s, self.base_s * 2 ** (failed - 1)) + (asked_s or 0.0)
        return delay if delay < left_s else None


def retry_after_s(value: str | None, now: float) -> float | None:
    """Seconds that a `Retry-After` asks for (RFC 9110, section 10.2.3); None if it cannot be read.

    Args:
        value: Whole seconds, or a date.
        now: Unix time in seconds.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MOST_DIGITS else float("inf")
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # A date of RFC 9110 is always in GMT; email's "-0000" and asctime's form are read without a zone.
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
