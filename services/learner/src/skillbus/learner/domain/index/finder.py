"""The record's answer about candidates of the index: which may be shown, at their current version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from skillbus.common.paging import MESSAGE_BYTES, cut_page
from skillbus.contracts.learner.index import FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.scope import match_scope
from skillbus.learner.domain.item.values import bound_item_size, measure_item
from skillbus.learner.domain.usage import Vote, weigh_votes


@dataclass(frozen=True, slots=True)
class RecordedCandidate:
    """A candidate as the record has it, its content perhaps cut."""

    item: KnowledgeItem
    content_cut: bool
    indexed_version: int


@dataclass(frozen=True, slots=True)
class CandidateSnapshot:
    """Candidates, projects and index state at one moment."""

    projects: tuple[str, ...]
    """The project that asks, then those above it."""
    items: Mapping[str, RecordedCandidate]
    """Candidates of these projects, by id."""
    index_behind: int = 0
    """Active items of these projects that the index lacks or has at an older version."""
    votes: Mapping[str, Sequence[Vote]] = field(default_factory=dict)


class CandidateRecord(Protocol):
    """The record, for search."""

    async def load_snapshot(self, wanted: FindKnowledge) -> CandidateSnapshot:
        """Read everything in one transaction. Raises KnowledgeUnavailableError."""


@dataclass(frozen=True, slots=True)
class CandidateFinder:
    record: CandidateRecord
    now: Callable[[], datetime]

    async def find_knowledge(self, wanted: FindKnowledge) -> KnowledgeMatched:
        """Return the candidates the caller may see, as many as fit into a message, and how far the index is behind."""
        now = self.now()
        snapshot = await self.record.load_snapshot(wanted)
        known = [snapshot.items[item] for item in dict.fromkeys(wanted.ids) if item in snapshot.items]
        candidates = [one for one in known if may_be_shown(one.item, wanted, wanted.at or now)]
        fit = sum(bound_item_size(one.item) for one in candidates) <= MESSAGE_BYTES  # cheaper than measuring each
        shown = candidates if fit else cut_page(candidates, lambda one: measure_item(one.item))
        items = list[FoundItem]()
        for one in shown:
            helpful, unhelpful = weigh_votes(snapshot.votes.get(one.item.id, ()), now)
            items.append(
                FoundItem(
                    item=one.item,
                    content_cut=one.content_cut,
                    helpful=helpful,
                    unhelpful=unhelpful,
                    indexed_version=one.indexed_version,
                )
            )
        return KnowledgeMatched(
            items=tuple(items),
            projects=snapshot.projects,
            index_behind=snapshot.index_behind,
            left=tuple(one.item.id for one in candidates[len(shown) :]),
        )


def may_be_shown(item: KnowledgeItem, wanted: FindKnowledge, at: datetime) -> bool:
    """Return whether an item of an effective project passes the filters."""
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
