"""How knowledge is used and what people say of it."""

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
    """The record, for uses and feedback. Everything raises KnowledgeUnavailableError."""

    async def count(self, used: KnowledgeUsed) -> None:
        """Keep all of it or nothing; of each request, told again it counts once."""
        ...

    async def vote(self, feedback: GiveFeedback, query_hash: str, at: datetime) -> ItemUsage:
        """Keep what somebody says of an item of the project or of those above it. Raises UnknownItemError."""
        ...

    async def usage(self, named: GetKnowledgeUsage) -> ItemUsage:
        """Of an item of the project. Raises UnknownItemError."""
        ...

    async def stats(self, asked: GetKnowledgeStats, stale_before: datetime) -> KnowledgeStats:
        """A project in numbers."""
        ...

    async def forget(self, before: datetime) -> bool:
        """Take some of the requests away that are older; whether there may be more."""
        ...


class Usage:
    """Counts what is used, and reports it."""

    def __init__(self, record: UsageRecord, now: Callable[[], datetime], kept: timedelta) -> None:
        """Requests are `kept` for so long; what people said of items stays."""
        self._record = record
        self._now = now
        self._kept = kept

    async def feedback(self, said: GiveFeedback) -> ItemUsage:
        return await self._record.vote(said, query_hash(said.query), self._now())

    async def of_item(self, named: GetKnowledgeUsage) -> ItemUsage:
        return await self._record.usage(named)

    async def stats(self, asked: GetKnowledgeStats) -> KnowledgeStats:
        return await self._record.stats(asked, self._now() - timedelta(days=asked.stale_after_days))

    async def count(self, used: KnowledgeUsed) -> None:
        await self._record.count(used)

    async def sweep(self) -> bool:
        """Forget some old requests; whether there may be more."""
        return await self._record.forget(self._now() - self._kept)


def query_hash(query: str) -> str:
    """The same for queries that differ in case and spaces only."""
    return sha256(" ".join(query.casefold().split()).encode()).hexdigest()
