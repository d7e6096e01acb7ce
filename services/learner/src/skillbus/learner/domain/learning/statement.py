"""Identity of learned items, and the union of two that say the same."""

from hashlib import sha256
from typing import Final

from pydantic_core import to_json

from skillbus.contracts.learner.knowledge import KnowledgeDraft
from skillbus.contracts.learner.learned import LOG_LEARNING, MAX_EVIDENCE, TEST_LEARNING, LearnedItem, LearnedKind
from skillbus.learner.domain.learning.text_relation import normalize_statement

_OF_TESTS: Final = frozenset(
    {LearnedKind.REGRESSION, LearnedKind.FLAKY, LearnedKind.ENVIRONMENT, LearnedKind.PREEXISTING}
)


def compute_topic(item: LearnedItem) -> str:
    """Return the SHA-256 of what an item is about: its scope, subject and predicate."""
    said = item.statement
    return sha256(to_json([item.scope, said.subject, said.predicate])).hexdigest()


def compute_identity(item: LearnedItem) -> str:
    """Return the SHA-256 of what an item says: its topic, value and polarity. Spelling of the value does not count."""
    said = item.statement
    value = normalize_statement(said.value)
    return sha256(to_json([item.scope, said.subject, said.predicate, value, said.polarity])).hexdigest()


def choose_source(item: LearnedItem) -> str:
    """Return the source of the knowledge item that a learned item becomes."""
    return TEST_LEARNING if item.kind in _OF_TESTS else LOG_LEARNING


def draft_item(item: LearnedItem, source_ref: str) -> KnowledgeDraft:
    """Return the content of the knowledge item that a learned item becomes."""
    shared = item.model_dump(include={"type", "title", "content", "scope", "tags"})
    return KnowledgeDraft(**shared, source=choose_source(item), source_ref=source_ref)


def join_learned(known: LearnedItem, new: LearnedItem) -> LearnedItem:
    """Return the known item with the evidence of a new one that says the same.

    Evidence that is known already counts once: the same lines in another job prove nothing more.
    """
    added = [quote for quote in new.evidence if quote not in known.evidence]
    union: dict[str, object] = {
        "tests": tuple(dict.fromkeys((*known.tests, *new.tests))),
        "fixed_by": tuple(dict.fromkeys((*known.fixed_by, *new.fixed_by))),
        "first_failed": known.first_failed or new.first_failed,
    }
    if not added:
        return known.model_copy(update=union)
    surer = new if new.seen > known.seen else known
    union |= {
        "evidence": (*known.evidence, *added)[:MAX_EVIDENCE],
        "seen": known.seen + new.seen,
        "confidence": surer.confidence,
        "addresses_assistant": known.addresses_assistant or new.addresses_assistant,
    }
    return known.model_copy(update=union)
