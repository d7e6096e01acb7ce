"""Rules of an item's life: the changes that its status allows, and the version that each makes.

    pending  → active (approved) | archived (rejected, merged, archived)
    active   → archived (archived, superseded)
    archived → active (restored)

An update keeps the status. An archived item must be restored before it is updated. An earlier version comes back as a
new version: active if the item is archived, else with the item's status.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillbus.contracts.learner.items import KnowledgeChanges, UpdateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeDraft, KnowledgeItem, KnowledgeStatus
from skillbus.learner.domain.errors import OtherVersionError, UnfitError, WrongStatusError
from skillbus.learner.domain.item.values import build_item, change_fields

_CLEARABLE: Final = ("valid_from", "valid_to", "external_id")


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A new version of an item that is not yet written."""

    before: KnowledgeItem | None
    """The version before; None for a new item."""
    item: KnowledgeItem
    """The whole item after the change, which `updated_by` makes at `updated_at`."""
    kind: KnowledgeChangeKind
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Actor, moment and reason of a change."""

    actor: str
    at: datetime
    reason: str = ""


def create_item(draft: KnowledgeDraft, item: str, project: str, status: KnowledgeStatus, by: Attribution) -> ItemChange:
    """Return the first version of an item. Raises UnfitError."""
    if status is KnowledgeStatus.ARCHIVED:
        raise UnfitError("a new item is `active` or `pending`: create it, then archive it")
    made = build_item(draft, item=item, project=project, status=status, actor=by.actor, at=by.at)
    return ItemChange(None, made, KnowledgeChangeKind.CREATED, by.reason)


def require_version(item: KnowledgeItem, version: int | None) -> None:
    """Raise OtherVersionError if a version is expected and the item is at another one."""
    if version is not None and item.version != version:
        raise OtherVersionError(item.id, item.version, version)


def update_item(item: KnowledgeItem, changes: Mapping[str, object], by: Attribution) -> ItemChange | None:
    """Change fields; return None if they have these values. Raises UnfitError, WrongStatusError."""
    if item.status is KnowledgeStatus.ARCHIVED:
        raise WrongStatusError(item.id, item.status, "restore it first")
    return _change(item, changes, KnowledgeChangeKind.UPDATED, by)


def collect_edits(changes: KnowledgeChanges) -> dict[str, object]:
    """Return the fields that are given, with their new values."""
    given = {field: getattr(changes, field) for field in KnowledgeDraft.model_fields}
    return {field: value for field, value in given.items() if value is not None}


def collect_changes(request: UpdateKnowledge) -> dict[str, object]:
    """Return the new values of the fields that a request names. Raises UnfitError."""
    changes = collect_edits(request)
    for field in request.clear:
        if field not in _CLEARABLE:
            raise UnfitError(f"`clear` names {field!r}: it can empty {', '.join(_CLEARABLE)} only")
        if field in changes:
            raise UnfitError(f"`{field}` is given and cleared: do one of both")
        changes[field] = None
    return changes


def archive_item(item: KnowledgeItem, by: Attribution) -> ItemChange | None:
    """Archive an item; return None if it is archived."""
    return _change(item, {"status": KnowledgeStatus.ARCHIVED}, KnowledgeChangeKind.ARCHIVED, by)


def restore_item(item: KnowledgeItem, by: Attribution) -> ItemChange | None:
    """Activate an archived item; return None if it is active. Raises WrongStatusError."""
    if item.status is KnowledgeStatus.PENDING:
        raise WrongStatusError(item.id, item.status, "`review_knowledge` approves it")
    return _change(item, {"status": KnowledgeStatus.ACTIVE}, KnowledgeChangeKind.RESTORED, by)


def revert_item(item: KnowledgeItem, then: KnowledgeItem, by: Attribution) -> ItemChange | None:
    """Give an item the fields of an earlier version, and activate it if archived; return None if nothing changes."""
    changes: dict[str, object] = {field: getattr(then, field) for field in KnowledgeDraft.model_fields}
    if item.status is KnowledgeStatus.ARCHIVED:
        changes["status"] = KnowledgeStatus.ACTIVE
    return _change(item, changes, KnowledgeChangeKind.REVERTED, by)


def approve_item(item: KnowledgeItem, edits: Mapping[str, object], by: Attribution) -> ItemChange:
    """Activate a pending item, with an editor's changes. Raises UnfitError, WrongStatusError."""
    return _close(item, {**edits, "status": KnowledgeStatus.ACTIVE}, KnowledgeChangeKind.APPROVED, by)


def reject_item(item: KnowledgeItem, by: Attribution) -> ItemChange:
    """Archive a pending item. Raises WrongStatusError."""
    return _close(item, {"status": KnowledgeStatus.ARCHIVED}, KnowledgeChangeKind.REJECTED, by)


def merge_item(item: KnowledgeItem, by: Attribution) -> ItemChange:
    """Archive a pending item in favour of another one. Raises WrongStatusError."""
    return _close(item, {"status": KnowledgeStatus.ARCHIVED}, KnowledgeChangeKind.MERGED, by)


def supersede_item(item: KnowledgeItem, by: Attribution) -> ItemChange | None:
    """Archive an item that a newer one replaces; return None if it is archived."""
    return _change(item, {"status": KnowledgeStatus.ARCHIVED}, KnowledgeChangeKind.SUPERSEDED, by)


def require_pending(item: KnowledgeItem) -> None:
    """Raise WrongStatusError unless the item waits for review."""
    if item.status is not KnowledgeStatus.PENDING:
        raise WrongStatusError(item.id, item.status, "only pending items are reviewed")


def _close(
    item: KnowledgeItem, changes: Mapping[str, object], kind: KnowledgeChangeKind, by: Attribution
) -> ItemChange:
    require_pending(item)
    change = _change(item, changes, kind, by)
    if change is None:
        raise WrongStatusError(item.id, item.status, "only pending items are reviewed")
    return change


def _change(
    item: KnowledgeItem, changes: Mapping[str, object], kind: KnowledgeChangeKind, by: Attribution
) -> ItemChange | None:
    made = change_fields(item, changes, actor=by.actor, at=by.at)
    return None if made is None else ItemChange(item, made, kind, by.reason)
