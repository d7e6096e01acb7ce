"""Feedback on items: its weight in ranking, and its confidence interval in reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from typing import Final

from skillbus.contracts.learner.usage import HelpfulRate

HALF_LIFE: Final = timedelta(days=180)
"""Age at which a vote has half its weight. Source: research, "Storage, ranking, packing"."""
_Z: Final = 1.959963984540054
"""Quantile of the normal distribution for a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The last vote of an actor on an item and a query."""

    helpful: bool
    at: datetime


def weigh_votes(votes: Sequence[Vote], now: datetime) -> tuple[float, float]:
    """Return the weights of helpful and unhelpful votes. Newer votes weigh more; a future vote counts as new."""
    helpful = unhelpful = 0.0
    for vote in votes:
        weight = 0.5 ** (max(now - vote.at, timedelta()) / HALF_LIFE)
        if vote.helpful:
            helpful += weight
        else:
            unhelpful += weight
    return helpful, unhelpful


def estimate_rate(helpful: int, unhelpful: int) -> HelpfulRate | None:
    """Return the share of helpful votes with its 95 % interval; None without votes.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    count = helpful + unhelpful
    if count == 0:
        return None
    share = helpful / count
    centre = share + _Z * _Z / (2 * count)
    spread = _Z * sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count))
    scale = 1 + _Z * _Z / count
    # Rounding may carry an end beyond 0 or 1, or past the share.
    low = min(max((centre - spread) / scale, 0.0), share)
    high = max(min((centre + spread) / scale, 1.0), share)
    return HelpfulRate(share=share, low=low, high=high, count=count)
