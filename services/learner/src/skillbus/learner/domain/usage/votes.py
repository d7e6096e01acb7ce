"""What people say of items: how it is weighed for ranking, and how sure it is for reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from typing import Final

from skillbus.contracts.learner.usage import HelpfulRate

HALF_LIFE: Final = timedelta(days=180)
"""After which a vote counts half. Source: research, "Storage, ranking, packing"."""
_Z: Final = 1.959963984540054
"""Of the normal distribution: 95 % lie within."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The last word of somebody about an item and a query."""

    helpful: bool
    at: datetime


def weights(votes: Sequence[Vote], now: datetime) -> tuple[float, float]:
    """Helpful and unhelpful votes, newer ones counting more. Votes of the future count as those of now."""
    helpful = unhelpful = 0.0
    for vote in votes:
        weight = 0.5 ** (max(now - vote.at, timedelta()) / HALF_LIFE)
        if vote.helpful:
            helpful += weight
        else:
            unhelpful += weight
    return helpful, unhelpful


def rate(helpful: int, unhelpful: int) -> HelpfulRate | None:
    """The share that helped with its 95 % interval; None where nothing was said.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    count = helpful + unhelpful
    if count == 0:
        return None
    share = helpful / count
    centre = share + _Z * _Z / (2 * count)
    spread = _Z * sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count))
    scale = 1 + _Z * _Z / count
    # At the ends rounding may carry it a little beyond, or past the share itself.
    low = min(max((centre - spread) / scale, 0.0), share)
    high = max(min((centre + spread) / scale, 1.0), share)
    return HelpfulRate(share=share, low=low, high=high, count=count)
