"""Use of knowledge and feedback: counts, weights of votes in ranking, and confidence intervals in reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from math import sqrt
from typing import Final, Protocol

from skillbus.contracts.learner.usage import (
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    HelpfulRate,
    ItemUsage,
    KnowledgeStats,
    KnowledgeUsed,
)

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


class UsageRecord(Protocol):
    """The record, for uses and feedback. Every method raises KnowledgeUnavailableError."""

    async def count_uses(self, used: KnowledgeUsed) -> None:
        """Record all requests of an event or none. A request that comes again counts once."""

    async def record_vote(self, feedback: GiveFeedback, query_hash: str, at: datetime) -> ItemUsage:
        """Record a vote on an item of the project or of its ancestors. Raises UnknownItemError."""

    async def get_usage(self, named: GetKnowledgeUsage) -> ItemUsage:
        """Return the use of an item of the project. Raises UnknownItemError."""

    async def get_stats(self, asked: GetKnowledgeStats, stale_before: datetime, now: datetime) -> KnowledgeStats:
        """Return the statistics of a project. Items without a change since `stale_before` can be stale."""

    async def remove_requests(self, before: datetime) -> bool:
        """Remove some requests older than `before`, and return True if there may be more."""


@dataclass(frozen=True, slots=True)
class UsageTracker:
    """Counts uses and feedback. Requests expire after `keep`; feedback stays."""

    record: UsageRecord
    now: Callable[[], datetime]
    keep: timedelta

    async def give_feedback(self, feedback: GiveFeedback) -> ItemUsage:
        return await self.record.record_vote(feedback, hash_query(feedback.query), self.now())

    async def get_stats(self, asked: GetKnowledgeStats) -> KnowledgeStats:
        now = self.now()
        return await self.record.get_stats(asked, now - timedelta(days=asked.stale_after_days), now)

    async def remove_expired(self) -> bool:
        """Remove some expired requests, and return True if there may be more."""
        return await self.record.remove_requests(self.now() - self.keep)


def hash_query(query: str) -> str:
    """Return a hash that is equal for queries that differ in case and spaces only."""
    return sha256(" ".join(query.casefold().split()).encode()).hexdigest()
