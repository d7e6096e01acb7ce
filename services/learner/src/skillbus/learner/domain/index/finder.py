"""What search may show: the record's word on candidates of the index, and what the index does not have yet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from skillbus.contracts.learner.index import FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.scope import match_scope
from skillbus.learner.domain.message_size import MESSAGE_BYTES, item_bytes, most_bytes
from skillbus.learner.domain.usage.votes import Vote, weights

_UNINDEXED_BYTES: Final = MESSAGE_BYTES // 2
"""Of a message: candidates that do not fit can be asked for again, what the index lacks cannot."""
_CLOCKS: Final = timedelta(seconds=0.25)
"""What the way of a message takes, and what the clocks of two learners differ by."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An item as the record has it, its content perhaps cut."""

    item: KnowledgeItem
    content_cut: bool
    indexed_version: int
    indexed_at: datetime | None = None
    """When the index was said to have that version."""
    content_left: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the record says at one moment."""

    projects: tuple[str, ...]
    """The project that asks, then those above it."""
    items: Mapping[str, Kept]
    """By id: of these projects, of the candidates and of `unindexed`."""
    unindexed: Sequence[str] = ()
    """Ids of active items that the index lacks or has at an older version, newest first; then of those that it got
    since the moment that was asked for."""
    votes: Mapping[str, Sequence[Vote]] = field(default_factory=dict)


class FindingRecord(Protocol):
    """The record, for search."""

    async def snapshot(self, wanted: FindKnowledge, at: datetime, since: datetime | None) -> Snapshot:
        """Of items that are valid at a moment, and those that were indexed since another. Raises
        KnowledgeUnavailableError."""
        ...


class Finder:
    """Decides what search shows."""

    def __init__(self, record: FindingRecord, now: Callable[[], datetime]) -> None:
        self._record = record
        self._now = now

    async def find(self, wanted: FindKnowledge) -> KnowledgeMatched:
        now = self._now()
        at = wanted.at or now
        age_s = wanted.candidates_age_s
        since = None if age_s is None else now - timedelta(seconds=age_s) - _CLOCKS
        snapshot = await self._record.snapshot(wanted, at, since)
        lacking = [kept for kept in _known(snapshot, snapshot.unindexed) if may_be_shown(kept.item, wanted, at)]
        candidates = [kept for kept in _known(snapshot, wanted.ids) if may_be_shown(kept.item, wanted, at)]
        named = set(wanted.ids)
        others = [kept for kept in lacking if kept.item.id not in named]
        others, used = _fitting(others, _UNINDEXED_BYTES)
        shown, _ = _fitting(candidates, MESSAGE_BYTES - used)
        return KnowledgeMatched.model_construct(
            items=tuple(_found(kept, snapshot.votes.get(kept.item.id, ()), now, since) for kept in (*shown, *others)),
            projects=snapshot.projects,
            left=tuple(kept.item.id for kept in candidates[len(shown) :]),
        )


def may_be_shown(item: KnowledgeItem, wanted: FindKnowledge, at: datetime) -> bool:
    """Whether an item of a project that is seen fits all that is asked for."""
    return (
        item.status is KnowledgeStatus.ACTIVE
        and (item.valid_from is None or item.valid_from <= at)
        and (item.valid_to is None or item.valid_to > at)
        and (not wanted.types or item.type in wanted.types)
        and (not wanted.sources or item.source in wanted.sources)
        and (not wanted.tags or any(tag in item.tags for tag in wanted.tags))
        and all(tag in item.tags for tag in wanted.all_tags)
        and (wanted.scope is None or match_scope(item.scope, wanted.scope) is not None)
    )


def _known(snapshot: Snapshot, ids: Iterable[str]) -> list[Kept]:
    return [snapshot.items[item] for item in dict.fromkeys(ids) if item in snapshot.items]


def _fitting(items: Sequence[Kept], limit: int) -> tuple[list[Kept], int]:
    """As many of the first as fit so many bytes, and how many bytes those are."""
    most = sum(most_bytes(kept.item) for kept in items)
    if most <= limit:
        return list(items), most
    used = 0
    for count, kept in enumerate(items):
        size = item_bytes(kept.item)
        if used + size > limit:
            return list(items[:count]), used
        used += size
    return list(items), used


def _found(kept: Kept, votes: Sequence[Vote], now: datetime, since: datetime | None) -> FoundItem:
    helpful, unhelpful = weights(votes, now)
    return FoundItem.model_construct(
        item=kept.item,
        content_cut=kept.content_cut,
        content_left=kept.content_left,
        helpful=helpful,
        unhelpful=unhelpful,
        indexed_version=kept.indexed_version,
        lately=since is not None and kept.indexed_at is not None and kept.indexed_at >= since,
    )
