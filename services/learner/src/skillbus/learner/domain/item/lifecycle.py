"""What may become of an item, and which version each change makes.

    pending  → active (approved) | archived (rejected, archived)
    active   → archived
    archived → active (restored)

An item keeps its status while it is updated. One that is archived is not: it is taken out of the archive first. An
earlier version comes back as a new one: of an archived item as an active one, of others with the status that they have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillbus.contracts.learner.items import UpdateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeDraft, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.versions import ReviewAction
from skillbus.learner.domain.errors import OtherVersionError, UnfitError, WrongStatusError
from skillbus.learner.domain.item.values import changed, item_of

_CLEARABLE: Final = ("valid_from", "valid_to", "external_id")
_REVIEWED: Final[Mapping[ReviewAction, tuple[KnowledgeStatus, KnowledgeChangeKind]]] = {
    ReviewAction.APPROVE: (KnowledgeStatus.ACTIVE, KnowledgeChangeKind.APPROVED),
    ReviewAction.REJECT: (KnowledgeStatus.ARCHIVED, KnowledgeChangeKind.REJECTED),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A version that is to be written."""

    before: KnowledgeItem | None
    """None of a new item."""
    item: KnowledgeItem
    """Whole, as it becomes; `updated_by` changes it at `updated_at`."""
    kind: KnowledgeChangeKind
    reason: str = ""


@dataclass(frozen=True, slots=True)
class By:
    """Who changes something, when and why."""

    actor: str
    at: datetime
    reason: str = ""


def create(draft: KnowledgeDraft, item: str, project: str, status: KnowledgeStatus, by: By) -> Change:
    """A new item. Raises UnfitError."""
    if status is KnowledgeStatus.ARCHIVED:
        raise UnfitError("a new item is `active` or `pending`: archive it once it is there")
    made = item_of(draft, item=item, project=project, status=status, actor=by.actor, at=by.at)
    return Change(None, made, KnowledgeChangeKind.CREATED, by.reason)


def expect(item: KnowledgeItem, version: int | None) -> None:
    """Raises OtherVersionError when somebody expects another version."""
    if version is not None and item.version != version:
        raise OtherVersionError(item.id, item.version, version)


def update(item: KnowledgeItem, changes: Mapping[str, object], by: By) -> Change | None:
    """Fields with other values; None when they have them. Raises UnfitError, WrongStatusError."""
    if item.status is KnowledgeStatus.ARCHIVED:
        raise WrongStatusError(item.id, item.status, "restore it first")
    return _change(item, changes, KnowledgeChangeKind.UPDATED, by)


def changes_of(request: UpdateKnowledge) -> dict[str, object]:
    """The fields that a request names, by what they become. Raises UnfitError."""
    given = {field: getattr(request, field) for field in KnowledgeDraft.model_fields}
    changes: dict[str, object] = {field: value for field, value in given.items() if value is not None}
    for field in request.clear:
        if field not in _CLEARABLE:
            raise UnfitError(f"`clear` names {field!r}: it empties {', '.join(_CLEARABLE)} only")
        if field in changes:
            raise UnfitError(f"`{field}` is given and cleared: do one of both")
        changes[field] = None
    return changes


def archive(item: KnowledgeItem, by: By) -> Change | None:
    """Into the archive; None when it is there."""
    return _change(item, {"status": KnowledgeStatus.ARCHIVED}, KnowledgeChangeKind.ARCHIVED, by)


def restore(item: KnowledgeItem, by: By) -> Change | None:
    """Out of the archive; None when it is active. Raises WrongStatusError."""
    if item.status is KnowledgeStatus.PENDING:
        raise WrongStatusError(item.id, item.status, "`review_knowledge` approves it")
    return _change(item, {"status": KnowledgeStatus.ACTIVE}, KnowledgeChangeKind.RESTORED, by)


def revert(item: KnowledgeItem, then: KnowledgeItem, by: By) -> Change | None:
    """As it was `then`, and not archived; None when it is so."""
    changes: dict[str, object] = {field: getattr(then, field) for field in KnowledgeDraft.model_fields}
    if item.status is KnowledgeStatus.ARCHIVED:
        changes["status"] = KnowledgeStatus.ACTIVE
    return _change(item, changes, KnowledgeChangeKind.REVERTED, by)


def review(item: KnowledgeItem, action: ReviewAction, by: By) -> Change:
    """A pending item is decided about. Raises WrongStatusError."""
    status, kind = _REVIEWED[action]
    change = _change(item, {"status": status}, kind, by) if item.status is KnowledgeStatus.PENDING else None
    if change is None:
        raise WrongStatusError(item.id, item.status, "only pending items are reviewed")
    return change


def _change(item: KnowledgeItem, changes: Mapping[str, object], kind: KnowledgeChangeKind, by: By) -> Change | None:
    made = changed(item, changes, actor=by.actor, at=by.at)
    return None if made is None else Change(item, made, kind, by.reason)
