"""Decisions of a reviewer about pending items."""

from datetime import UTC, datetime, timedelta

import pytest

from skillbus.contracts.learner.items import KnowledgeChanges
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeDraft, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.versions import ReviewKnowledge
from skillbus.learner.domain.errors import UnfitError, WrongStatusError
from skillbus.learner.domain.item.lifecycle import Attribution, create_item
from skillbus.learner.domain.item.review import decide_item, read_review

_BY = Attribution("ann", datetime(2026, 1, 1, tzinfo=UTC), "seen twice")
_ID = "01890000-0000-7000-8000-00000000000{}"


def _item(number: int, status: KnowledgeStatus = KnowledgeStatus.PENDING) -> KnowledgeItem:
    first = KnowledgeStatus.PENDING if status is KnowledgeStatus.PENDING else KnowledgeStatus.ACTIVE
    draft = KnowledgeDraft(title=f"Title {number}", content=f"Content {number}")
    made = create_item(draft, _ID.format(number), "default", first, _BY).item
    return made.model_copy(update={"status": status})


def _request(action: str, **fields: object) -> ReviewKnowledge:
    return ReviewKnowledge.model_validate({"ids": (_ID.format(1),), "action": action, "actor": "ann", **fields})


def _decide(action: str, other: KnowledgeItem | None = None, **fields: object) -> list[tuple[str, str, str]]:
    changes = decide_item(read_review(_request(action, **fields), _BY), _item(1), other)
    return [(change.item.id[-1], change.kind, change.item.status) for change in changes]


@pytest.mark.spec("knowledge-base.md § 审核待确认知识")
def test_an_approved_item_becomes_active_with_the_changes_of_the_reviewer() -> None:
    assert _decide("approve") == [("1", "approved", "active")]
    review = read_review(_request("approve", changes=KnowledgeChanges(title="A better title")), _BY)
    (change,) = decide_item(review, _item(1), None)
    assert (change.item.title, change.item.status, change.item.version) == ("A better title", "active", 2)


@pytest.mark.spec("knowledge-base.md § 拒绝无效知识")
def test_a_rejected_item_is_archived_with_the_reason() -> None:
    (change,) = decide_item(read_review(_request("reject"), _BY), _item(1), None)
    assert (change.kind, change.item.status, change.reason) == (
        KnowledgeChangeKind.REJECTED,
        KnowledgeStatus.ARCHIVED,
        "seen twice",
    )


def test_a_merged_item_is_archived_and_the_other_one_gets_the_changes() -> None:
    other = _item(2, KnowledgeStatus.ACTIVE)
    assert _decide("merge", other) == [("1", "merged", "archived")]
    changed = _decide("merge", other, changes=KnowledgeChanges(content="Both together"))
    assert changed == [("1", "merged", "archived"), ("2", "updated", "active")]


def test_an_item_that_supersedes_another_is_active_and_the_other_archived() -> None:
    other = _item(2, KnowledgeStatus.ACTIVE)
    assert _decide("supersede", other) == [("1", "approved", "active"), ("2", "superseded", "archived")]


def test_a_snoozed_item_does_not_change() -> None:
    assert _decide("snooze", until=_BY.at + timedelta(days=1)) == []


@pytest.mark.parametrize("action", ["approve", "reject", "merge", "supersede", "snooze"])
def test_only_a_pending_item_is_reviewed(action: str) -> None:
    until = _BY.at + timedelta(days=1) if action == "snooze" else None
    review = read_review(_request(action, until=until), _BY)
    with pytest.raises(WrongStatusError):
        decide_item(review, _item(1, KnowledgeStatus.ACTIVE), _item(2, KnowledgeStatus.ACTIVE))


@pytest.mark.parametrize("action", ["merge", "supersede"])
@pytest.mark.parametrize("other", [None, _item(1)], ids=["none", "the item itself"])
def test_a_decision_about_two_items_needs_another_item(action: str, other: KnowledgeItem | None) -> None:
    with pytest.raises(UnfitError):
        decide_item(read_review(_request(action), _BY), _item(1), other)


def test_an_archived_item_cannot_be_the_other_one() -> None:
    with pytest.raises(WrongStatusError):
        _decide("merge", _item(2, KnowledgeStatus.ARCHIVED))


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("reject", {"changes": {"title": "T"}}),
        ("approve", {"changes": {"title": "T"}, "ids": (_ID.format(1), _ID.format(2))}),
        ("approve", {"other": _ID.format(2)}),
        ("approve", {"until": "2027-01-01T00:00:00Z"}),
        ("snooze", {}),
        ("snooze", {"until": "2025-01-01T00:00:00Z"}),
    ],
)
def test_fields_of_other_decisions_are_refused(action: str, fields: dict[str, object]) -> None:
    with pytest.raises(UnfitError):
        read_review(_request(action, **fields), _BY)
