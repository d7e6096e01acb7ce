"""Resolution of a learned item against what is known."""

from datetime import UTC, datetime

import pytest

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import (
    LOG_LEARNING,
    TEST_LEARNING,
    ConfidenceInterval,
    EvidenceQuote,
    LearnedItem,
    LearnedKind,
    LearnedStatement,
    Polarity,
)
from skillbus.contracts.learner.proposals import ProposalDecision, ProposalKind
from skillbus.learner.domain.learning.resolution import KnownStatement, Resolution, resolve_item

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_ITEM = "01890000-0000-7000-8000-000000000001"


def _learned(value: str = "30 s", polarity: Polarity = Polarity.FACT) -> LearnedItem:
    return LearnedItem(
        kind=LearnedKind.CONFIG,
        type="project_config",
        title="Timeout of the pool",
        content=f"The pool's timeout is {value}.",
        scope="module:pool",
        statement=LearnedStatement(subject="pool", predicate="timeout", value=value, polarity=polarity),
        evidence=(EvidenceQuote(file="app.log", line=3, quote=f"timeout={value}"),),
        confidence=ConfidenceInterval(low=0.5, high=0.9),
        seen=3,
    )


def _item(
    learned: LearnedItem,
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE,
    source: str = LOG_LEARNING,
    content: str = "",
) -> KnowledgeItem:
    return KnowledgeItem(
        **learned.model_dump(include={"type", "title", "scope"}),
        content=content or learned.content,
        id=_ITEM,
        status=status,
        version=1,
        digest="",
        source=source,
        created_at=_AT,
        updated_at=_AT,
    )


def _known(
    value: str = "30 s", status: KnowledgeStatus = KnowledgeStatus.ACTIVE, source: str = LOG_LEARNING, content: str = ""
) -> KnownStatement:
    learned = _learned(value)
    return KnownStatement(_item(learned, status, source, content), learned)


def _resolve(*known: KnownStatement, source: str = LOG_LEARNING, near: tuple[KnowledgeItem, ...] = ()) -> Resolution:
    return resolve_item(_learned(), source, known, near, "this job")


@pytest.mark.parametrize("status", [KnowledgeStatus.ACTIVE, KnowledgeStatus.PENDING])
def test_the_same_value_of_the_same_thing_reinforces_the_known_item(status: KnowledgeStatus) -> None:
    resolution = _resolve(_known("30  S", status))
    assert (resolution.kind, resolution.other) == (ProposalKind.REINFORCE, _ITEM)


@pytest.mark.parametrize("decision", [ProposalDecision.REJECTED, ProposalDecision.SUPERSEDED, None])
def test_what_was_rejected_or_archived_is_not_proposed_again(decision: ProposalDecision | None) -> None:
    known = KnownStatement(_item(_learned(), KnowledgeStatus.ARCHIVED), _learned(), decision)
    assert _resolve(known).kind is ProposalKind.SUPPRESS


def test_what_was_merged_reinforces_the_item_that_it_was_merged_into() -> None:
    known = KnownStatement(
        _item(_learned(), KnowledgeStatus.ARCHIVED), _learned(), ProposalDecision.MERGED, other="other"
    )
    assert _resolve(known) == Resolution(ProposalKind.REINFORCE, "it was merged into a known item", "other")


@pytest.mark.parametrize(
    ("known", "source", "kind"),
    [
        (_known("60 s"), LOG_LEARNING, ProposalKind.SUPERSEDE),
        (_known("60 s", KnowledgeStatus.PENDING), LOG_LEARNING, ProposalKind.UPDATE),
        (_known("60 s", source="manual"), LOG_LEARNING, ProposalKind.CONFLICT),
        (_known("60 s", content="Edited by a person."), LOG_LEARNING, ProposalKind.CONFLICT),
        (_known("60 s", source=TEST_LEARNING), LOG_LEARNING, ProposalKind.CONFLICT),
        (_known("60 s", source=LOG_LEARNING), TEST_LEARNING, ProposalKind.SUPERSEDE),
    ],
    ids=["learned", "pending", "of a person", "edited", "of a better source", "of a lesser source"],
)
def test_another_value_of_the_same_thing_is_proposed_by_the_rank_of_the_known_source(
    known: KnownStatement, source: str, kind: ProposalKind
) -> None:
    resolution = _resolve(known, source=source)
    assert (resolution.kind, resolution.other) == (kind, _ITEM)
    assert "60 s" in resolution.reason
    assert "30 s" in resolution.reason


def test_another_value_than_a_rejected_one_is_new() -> None:
    known = _known("60 s", KnowledgeStatus.ARCHIVED)
    assert _resolve(known).kind is ProposalKind.ADD


def test_the_other_polarity_is_no_repetition() -> None:
    must, must_not = _learned("game-id", Polarity.MUST), _learned("game-id", Polarity.MUST_NOT)
    resolution = resolve_item(must_not, LOG_LEARNING, [KnownStatement(_item(must), must)], (), "job")
    assert resolution.kind is ProposalKind.SUPERSEDE


def test_a_known_text_is_reinforced_and_an_amended_one_is_a_conflict_with_its_differences() -> None:
    same = _item(_learned(), source="manual")
    amended = _item(_learned(), source="manual", content="The pool's timeout is 60 s.")
    assert _resolve(near=(amended, same)).kind is ProposalKind.REINFORCE
    resolution = _resolve(near=(amended,))
    assert resolution.kind is ProposalKind.CONFLICT
    assert "-60 s" in resolution.reason
    assert _resolve(near=(_item(_learned(), content="Rain is told by the hour."),)).kind is ProposalKind.ADD


def test_two_values_of_one_job_are_a_conflict() -> None:
    waiting = _learned("60 s")
    known = KnownStatement(_item(waiting, KnowledgeStatus.PENDING), waiting, job="this job")
    assert _resolve(known).kind is ProposalKind.CONFLICT
