"""How often and how long an event is tried before it becomes a dead letter."""

import random
from typing import Final

DELAYS_S: Final = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Wait before each further try. After the last one the event is a dead letter."""

SPARE_DELIVERIES: Final = 4
"""Deliveries beyond the tries above: for replicas that die at work, and for a dead letter that could not be stored."""

MAX_DELIVER: Final = len(DELAYS_S) + 1 + SPARE_DELIVERIES


def delay_s(deliveries: int, delays_s: tuple[float, ...] = DELAYS_S) -> float | None:
    """Seconds until the next try after `deliveries` of them (1 or more) failed; None when that was the last.

    Spread by a fifth either way, so that what failed together does not come back together.
    """
    if deliveries > len(delays_s):
        return None
    return delays_s[deliveries - 1] * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
