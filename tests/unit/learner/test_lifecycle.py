"""What may become of an item, and what each change writes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from skillbus.contracts.learner.items import UpdateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeDraft, KnowledgeItem, KnowledgeStatus
from skillbus.learner.domain.errors import OtherVersionError, UnfitError, WrongStatusError
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange
from skillbus.learner.domain.item.values import compute_digest, generate_id

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ANN = Attribution("ann", NOW, "because")
DRAFT = KnowledgeDraft(type="business_rule", title="t", content="c")
SEEN_BY_SEARCH = {
    "type": "project_config",
    "title": "u",
    "content": "d",
    "scope": "/a",
    "tags": ("x",),
    "priority": 9,
    "source": "import",
    "valid_from": NOW,
    "valid_to": NOW,
}
NOT_SEEN = {"external_id": "e", "source_ref": "task-1", "owner": "ann", "lang": "zh"}


def item(status: KnowledgeStatus = KnowledgeStatus.ACTIVE) -> KnowledgeItem:
    by = Attribution("eve", NOW - timedelta(days=1))
    made = lifecycle.create_item(DRAFT, "an-id", "default", KnowledgeStatus.ACTIVE, by).item
    return made.model_copy(update={"status": status})


@pytest.mark.parametrize(
    ("status", "archived", "restored", "approved", "rejected"),
    [
        (KnowledgeStatus.ACTIVE, "archived", None, "refused", "refused"),
        (KnowledgeStatus.PENDING, "archived", "refused", "approved", "rejected"),
        (KnowledgeStatus.ARCHIVED, None, "restored", "refused", "refused"),
    ],
)
def test_from_each_status_some_changes_lead_on(
    status: KnowledgeStatus, archived: str | None, restored: str | None, approved: str | None, rejected: str | None
) -> None:
    it = item(status)
    changes: dict[str, Callable[[], ItemChange | None]] = {
        "archive": lambda: lifecycle.archive_item(it, ANN),
        "restore": lambda: lifecycle.restore_item(it, ANN),
        "approve": lambda: lifecycle.approve_item(it, {}, ANN),
        "reject": lambda: lifecycle.reject_item(it, ANN),
    }

    def made_by(change: str) -> str | None:
        try:
            made = changes[change]()
        except WrongStatusError:
            return "refused"
        return None if made is None else made.kind

    found = tuple(made_by(change) for change in changes)
    assert found == (archived, restored, approved, rejected)


def test_a_change_has_the_version_before_and_the_one_after_whole() -> None:
    before = item()
    change = lifecycle.update_item(before, {"title": "u", "owner": "team"}, ANN)
    assert change is not None
    assert (change.before, change.kind, change.reason) == (before, KnowledgeChangeKind.UPDATED, "because")
    after = change.item
    assert (after.version, after.updated_by, after.updated_at, after.created_by) == (2, "ann", NOW, "eve")
    assert after.model_dump(exclude={"version", "title", "owner", "digest", "updated_at", "updated_by"}) == (
        before.model_dump(exclude={"version", "title", "owner", "digest", "updated_at", "updated_by"})
    )


def test_an_update_keeps_the_status() -> None:
    pending = lifecycle.update_item(item(KnowledgeStatus.PENDING), {"title": "u"}, ANN)
    assert pending is not None
    assert pending.item.status is KnowledgeStatus.PENDING
    with pytest.raises(WrongStatusError):
        lifecycle.update_item(item(KnowledgeStatus.ARCHIVED), {"title": "u"}, ANN)


def test_a_new_item_is_not_archived() -> None:
    with pytest.raises(UnfitError):
        lifecycle.create_item(DRAFT, "an-id", "default", KnowledgeStatus.ARCHIVED, ANN)


def test_what_would_never_be_found_is_refused() -> None:
    never = DRAFT.model_copy(update={"valid_from": NOW, "valid_to": NOW})
    with pytest.raises(UnfitError):
        lifecycle.create_item(never, "an-id", "default", KnowledgeStatus.ACTIVE, ANN)
    with pytest.raises(UnfitError):
        lifecycle.update_item(item(), {"valid_from": NOW, "valid_to": NOW - timedelta(days=1)}, ANN)


def test_an_expected_version_is_the_one_that_is() -> None:
    lifecycle.require_version(item(), None)
    lifecycle.require_version(item(), 1)
    with pytest.raises(OtherVersionError):
        lifecycle.require_version(item(), 2)


def test_changes_are_the_fields_that_a_request_names() -> None:
    request = UpdateKnowledge(id="x", title="u", priority=0, scope="", tags=(), clear=("valid_to",))
    assert lifecycle.collect_changes(request) == {
        "title": "u",
        "priority": 0,
        "scope": "",
        "tags": (),
        "valid_to": None,
    }


@pytest.mark.parametrize("field", SEEN_BY_SEARCH)
def test_the_digest_is_another_when_search_sees_something_else(field: str) -> None:
    other = DRAFT.model_copy(update={field: SEEN_BY_SEARCH[field]})
    assert compute_digest(other) != compute_digest(DRAFT)


def test_the_digest_is_the_same_whatever_search_does_not_see() -> None:
    assert {*SEEN_BY_SEARCH, *NOT_SEEN} == set(KnowledgeDraft.model_fields)
    assert compute_digest(DRAFT.model_copy(update=NOT_SEEN)) == compute_digest(DRAFT)
    archived = lifecycle.archive_item(item(), ANN)
    assert archived is not None
    assert archived.item.digest == compute_digest(DRAFT)


def test_the_digest_tells_fields_apart() -> None:
    swapped = DRAFT.model_copy(update={"title": DRAFT.content, "content": DRAFT.title})
    assert compute_digest(swapped) != compute_digest(DRAFT)


def test_ids_are_of_version_7_differ_and_sort_by_their_time() -> None:
    ids = [generate_id(NOW + timedelta(milliseconds=n)) for n in range(100)]
    assert sorted(ids) == ids
    assert len({generate_id(NOW) for _ in range(1000)}) == 1000
    assert {(made[14], made[19] in "89ab", len(made)) for made in ids} == {("7", True, 36)}
    assert int(ids[0].replace("-", "")[:12], 16) == int(NOW.timestamp() * 1000)
