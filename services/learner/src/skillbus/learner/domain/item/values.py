"""Items as values: ids, digests, sizes, and rules that span several fields."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import UUID

from pydantic_core import to_json

from skillbus.common.paging import JSON_CHARACTER_BYTES
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem, KnowledgeStatus
from skillbus.learner.domain.errors import UnfitError

_DIGESTED: Final = ("type", "title", "content", "scope", "tags", "priority", "source", "valid_from", "valid_to")
"""Fields that search uses, in the order of the digest. Ids are not digested: an import may add an external id to an
item that is otherwise the same.
"""
_FRAME_BYTES: Final = 1_000
"""Bound on the field names of an item and its short values, in JSON."""


def generate_id(at: datetime) -> str:
    """Return a UUID of version 7: later ids sort later, by the millisecond. Source: RFC 9562, section 5.7."""
    milliseconds = int(at.timestamp() * 1000) & ((1 << 48) - 1)
    bits = milliseconds << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76) | 0x7 << 76  # version
    bits = bits & ~(0x3 << 62) | 0x2 << 62  # variant
    return str(UUID(int=bits))


def compute_digest(item: KnowledgeDraft) -> str:
    """Return the SHA-256 of all fields that search uses, hex."""
    return sha256(to_json([getattr(item, field) for field in _DIGESTED])).hexdigest()


def build_item(
    draft: KnowledgeDraft, *, item: str, project: str, status: KnowledgeStatus, actor: str, at: datetime
) -> KnowledgeItem:
    """Return the first version of an item. Raises UnfitError."""
    fields = {field: getattr(draft, field) for field in KnowledgeDraft.model_fields}
    fields["tags"] = _deduplicate(draft.tags)
    made = KnowledgeItem.model_construct(
        **fields,
        id=item,
        project=project,
        status=status,
        version=1,
        digest="",
        created_at=at,
        created_by=actor,
        updated_at=at,
        updated_by=actor,
    )
    return _complete(made)


def change_fields(
    item: KnowledgeItem, changes: Mapping[str, object], *, actor: str, at: datetime
) -> KnowledgeItem | None:
    """Return the next version of an item, or None if no field changes. Raises UnfitError.

    Args:
        item: The current version.
        changes: Valid values of fields of `KnowledgeDraft` and of `status`, by name.
        actor: The author of the change.
        at: Moment of the change; the new version is never older than the current one.
    """
    values = dict(changes)
    if isinstance(tags := values.get("tags"), tuple):
        values["tags"] = _deduplicate(tags)
    values = {field: value for field, value in values.items() if getattr(item, field) != value}
    if not values:
        return None
    stamp = {"version": item.version + 1, "updated_at": max(at, item.updated_at), "updated_by": actor}
    return _complete(item.model_copy(update={**values, **stamp}))


def measure_item(item: KnowledgeItem) -> int:
    """Return an upper bound of an item's size as JSON, in bytes."""
    texts = (item.title, item.content, item.tags, item.scope, item.owner, item.source_ref, item.external_id)
    return len(to_json((texts, item.lang, item.created_by, item.updated_by))) + _FRAME_BYTES


def bound_item_size(item: KnowledgeItem) -> int:
    """Return a rough upper bound of `measure_item`, without encoding the item."""
    texts = (item.title, item.content, *item.tags, item.scope, item.owner, item.source_ref, item.external_id or "")
    shorter = (item.lang, item.created_by, item.updated_by)
    return JSON_CHARACTER_BYTES * sum(map(len, (*texts, *shorter))) + 4 * len(item.tags) + _FRAME_BYTES


def _complete(item: KnowledgeItem) -> KnowledgeItem:
    """Check fields against each other and set the digest."""
    if item.valid_from is not None and item.valid_to is not None and item.valid_from >= item.valid_to:
        raise UnfitError("`valid_to` is not after `valid_from`: the item would never be found; correct one of them")
    return item.model_copy(update={"digest": compute_digest(item)})


def _deduplicate(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))
