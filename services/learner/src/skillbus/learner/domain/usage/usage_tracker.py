"""Counts how knowledge is used, keeps feedback, and reports both."""

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Protocol

from skillbus.contracts.learner.usage import (
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
    KnowledgeStats,
    KnowledgeUsed,
)


class UsageRecord(Protocol):
    """The record, for uses and feedback. Every method raises KnowledgeUnavailableError."""

    async def count_uses(self, used: KnowledgeUsed) -> None:
        """Record all requests of an event or none. A request that comes again counts once."""
        ...

    async def record_vote(self, feedback: GiveFeedback, query_hash: str, at: datetime) -> ItemUsage:
        """Record a vote on an item of the project or of its ancestors. Raises UnknownItemError."""
        ...

    async def get_usage(self, named: GetKnowledgeUsage) -> ItemUsage:
        """Return the use of an item of the project. Raises UnknownItemError."""
        ...

    async def get_stats(self, asked: GetKnowledgeStats, stale_before: datetime) -> KnowledgeStats:
        """Return the statistics of a project."""
        ...

    async def remove_requests(self, before: datetime) -> bool:
        """Remove some requests older than `before`, and return True if there may be more."""
        ...


class UsageTracker:
    """Counts uses and feedback. Requests expire; feedback stays."""

    def __init__(self, record: UsageRecord, now: Callable[[], datetime], keep: timedelta) -> None:
        self._record = record
        self._now = now
        self._keep = keep

    async def give_feedback(self, feedback: GiveFeedback) -> ItemUsage:
        return await self._record.record_vote(feedback, hash_query(feedback.query), self._now())

    async def get_usage(self, named: GetKnowledgeUsage) -> ItemUsage:
        return await self._record.get_usage(named)

    async def get_stats(self, asked: GetKnowledgeStats) -> KnowledgeStats:
        return await self._record.get_stats(asked, self._now() - timedelta(days=asked.stale_after_days))

    async def count_uses(self, used: KnowledgeUsed) -> None:
        await self._record.count_uses(used)

    async def remove_expired(self) -> bool:
        """Remove some expired requests, and return True if there may be more."""
        return await self._record.remove_requests(self._now() - self._keep)


def hash_query(query: str) -> str:
    """Return a hash that is equal for queries that differ in case and spaces only."""
    return sha256(" ".join(query.casefold().split()).encode()).hexdigest()
