"""Review of pending items: one decision about each of them, which can change a second item too."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.proposals import ProposalDecision
from skillbus.contracts.learner.versions import ReviewAction, ReviewKnowledge
from skillbus.learner.domain.errors import UnfitError, WrongStatusError
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange

_OF_TWO_ITEMS = frozenset({ReviewAction.MERGE, ReviewAction.SUPERSEDE})
_WITH_EDITS = frozenset({ReviewAction.APPROVE, ReviewAction.MERGE, ReviewAction.SUPERSEDE})
_DECISIONS: Mapping[ReviewAction, ProposalDecision] = {
    ReviewAction.APPROVE: ProposalDecision.APPROVED,
    ReviewAction.REJECT: ProposalDecision.REJECTED,
    ReviewAction.MERGE: ProposalDecision.MERGED,
    ReviewAction.SUPERSEDE: ProposalDecision.SUPERSEDED,
}


@dataclass(frozen=True, slots=True)
class Review:
    """Decision about one or more items."""

    action: ReviewAction
    by: Attribution
    edits: Mapping[str, object]
    other: str | None = None
    """Item that all of them are merged into or supersede. None means the one that each proposal names."""
    until: datetime | None = None

    @property
    def decision(self) -> ProposalDecision | None:
        """Decision that ends a proposal; None for a snooze."""
        return _DECISIONS.get(self.action)

    @property
    def needs_other(self) -> bool:
        """True if the decision is about a second item too."""
        return self.action in _OF_TWO_ITEMS


def read_review(request: ReviewKnowledge, by: Attribution) -> Review:
    """Return the decision of a request. Raises UnfitError if its fields do not fit together."""
    edits = lifecycle.collect_edits(request.changes) if request.changes is not None else {}
    if edits and (request.action not in _WITH_EDITS or len(set(request.ids)) > 1):
        raise UnfitError("`changes` are for one item, with `approve`, `merge` or `supersede`")
    if request.other is not None and request.action not in _OF_TWO_ITEMS:
        raise UnfitError("`other` is for `merge` and `supersede` only")
    if (request.until is not None) is not (request.action is ReviewAction.SNOOZE):
        raise UnfitError("`snooze` needs `until`, and no other decision has it")
    if request.until is not None and request.until <= by.at:
        raise UnfitError("`until` is in the past: give a later time")
    return Review(request.action, by, edits, request.other, request.until)


def decide_item(review: Review, item: KnowledgeItem, other: KnowledgeItem | None) -> tuple[ItemChange, ...]:
    """Return the changes of a decision, of the item first.

    Args:
        review: The decision.
        item: The pending item.
        other: The known item, for decisions about two items.

    Raises:
        UnfitError: A decision about two items has no other item, or names the item itself.
        WrongStatusError: The item does not wait for review, or the other one is archived.
    """
    match review.action:
        case ReviewAction.APPROVE:
            return (lifecycle.approve_item(item, review.edits, review.by),)
        case ReviewAction.REJECT:
            return (lifecycle.reject_item(item, review.by),)
        case ReviewAction.SNOOZE:
            lifecycle.require_pending(item)
            return ()
    known = _require_other(item, other)
    if review.action is ReviewAction.MERGE:
        merged = lifecycle.merge_item(item, review.by)
        updated = lifecycle.update_item(known, review.edits, review.by) if review.edits else None
        return (merged,) if updated is None else (merged, updated)
    approved = lifecycle.approve_item(item, review.edits, review.by)
    replaced = lifecycle.supersede_item(known, review.by)
    return (approved,) if replaced is None else (approved, replaced)


def _require_other(item: KnowledgeItem, other: KnowledgeItem | None) -> KnowledgeItem:
    if other is None or other.id == item.id:
        raise UnfitError(f"item {item.id!r} has no proposal with another item: name it in `other`")
    if other.status is KnowledgeStatus.ARCHIVED:
        raise WrongStatusError(other.id, other.status, "name an item in `other` that is not archived")
    return other
