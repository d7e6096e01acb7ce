"""Resolution of a learned item against what is known.

Two items are about the same thing if scope, subject and predicate of their statements are equal; then value and
polarity decide. Items of people have no statements, so their texts are compared. Vectors only find the candidates:
no decision depends on a cosine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import LOG_LEARNING, TEST_LEARNING, LearnedItem
from skillbus.contracts.learner.proposals import ProposalDecision, ProposalKind
from skillbus.learner.domain.learning.text_relation import TextRelation, compare_texts, normalize_statement

_SOURCE_RANK: Final = {LOG_LEARNING: 1, TEST_LEARNING: 2}
"""Rank of learned sources. Everything else counts as written by a person, and ranks higher."""
_RANK_OF_PEOPLE: Final = 3


@dataclass(frozen=True, slots=True)
class KnownStatement:
    """Item with a statement about the same thing."""

    item: KnowledgeItem
    learned: LearnedItem
    decision: ProposalDecision | None = None
    other: str | None = None
    """Item that it was merged into, that it superseded, or that it would change."""
    job: str = ""
    """Job that proposed it."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Relation of a learned item to what is known."""

    kind: ProposalKind
    reason: str
    other: str | None = None
    """Known item that is reinforced, updated, superseded or in conflict."""


def resolve_item(
    learned: LearnedItem,
    source: str,
    known: Sequence[KnownStatement],
    neighbours: Sequence[KnowledgeItem],
    job: str,
) -> Resolution:
    """Return the relation of a learned item.

    Args:
        learned: The item.
        source: `log_learning` or `test_learning`.
        known: Items with statements about the same thing, newest first.
        neighbours: Active items near it by their vectors, in its scope or one above it.
        job: Job that found the item.
    """
    same = [one for one in known if _says_the_same(one.learned, learned) and not _is_replaced(one)]
    if same:
        return _resolve_same(same)
    open_ones = [one for one in known if one.item.status is not KnowledgeStatus.ARCHIVED]
    if open_ones:
        return _resolve_other_value(learned, source, job, open_ones[0])
    return _resolve_by_text(learned, source, neighbours)


def _says_the_same(known: LearnedItem, new: LearnedItem) -> bool:
    before, after = known.statement, new.statement
    return before.polarity is after.polarity and normalize_statement(before.value) == normalize_statement(after.value)


def _is_replaced(known: KnownStatement) -> bool:
    """Return True for a value that held once: if it is seen again, it holds again."""
    return known.decision is ProposalDecision.REPLACED and known.item.status is KnowledgeStatus.ARCHIVED


def _resolve_same(same: Sequence[KnownStatement]) -> Resolution:
    for one in same:
        if one.item.status is not KnowledgeStatus.ARCHIVED:
            return Resolution(ProposalKind.REINFORCE, "it is known with the same value", one.item.id)
        if one.decision is ProposalDecision.MERGED and one.other is not None:
            return Resolution(ProposalKind.REINFORCE, "it was merged into a known item", one.other)
    first = same[0]
    done = "rejected" if first.decision is ProposalDecision.REJECTED else "archived"
    return Resolution(ProposalKind.SUPPRESS, f"it was {done} before, by {first.item.updated_by}", first.item.id)


def _resolve_other_value(learned: LearnedItem, source: str, job: str, known: KnownStatement) -> Resolution:
    before, after = known.learned.statement, learned.statement
    said = (
        f"{_describe_value(before.polarity, before.value)} before, {_describe_value(after.polarity, after.value)} now"
    )
    reason = f"the same subject, {after.subject!r} {after.predicate}, with another value: {said}"
    if _rank(known.item, known.learned) > _SOURCE_RANK.get(source, 0):
        return Resolution(ProposalKind.CONFLICT, reason, known.item.id)
    if known.item.status is KnowledgeStatus.PENDING:
        # What one job finds is equally new: a person must choose.
        kind = ProposalKind.CONFLICT if known.job == job else ProposalKind.UPDATE
        return Resolution(kind, reason, known.item.id)
    return Resolution(ProposalKind.SUPERSEDE, reason, known.item.id)


def _resolve_by_text(learned: LearnedItem, source: str, neighbours: Sequence[KnowledgeItem]) -> Resolution:
    amended: Resolution | None = None
    for item in neighbours:
        comparison = compare_texts(item.content, learned.content)
        if comparison.relation is TextRelation.SAME:
            return Resolution(ProposalKind.REINFORCE, "a known item has the same text", item.id)
        if comparison.relation is TextRelation.AMENDED and amended is None:
            differences = ", ".join(comparison.differences) or "words"
            kind = ProposalKind.CONFLICT if _rank(item) > _SOURCE_RANK.get(source, 0) else ProposalKind.SUPERSEDE
            amended = Resolution(kind, f"the text of a known item, apart from: {differences}", item.id)
    return amended or Resolution(ProposalKind.ADD, "nothing is known about it")


def _rank(item: KnowledgeItem, learned: LearnedItem | None = None) -> int:
    """Return the rank of an item's source. A learned item that a person has edited counts as that person's."""
    if learned is not None and (item.title, item.content) != (learned.title, learned.content):
        return _RANK_OF_PEOPLE
    return _SOURCE_RANK.get(item.source, _RANK_OF_PEOPLE)


def _describe_value(polarity: str, value: str) -> str:
    return f"{polarity} {value[:80]!r}" if value else polarity
