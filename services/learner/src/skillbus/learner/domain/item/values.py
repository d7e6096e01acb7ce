"""Items as values: their ids, what search sees of them, and what they must not contradict."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import UUID

from pydantic_core import to_json

from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem, KnowledgeStatus
from skillbus.learner.domain.errors import UnfitError

_SEEN: Final = ("type", "title", "content", "scope", "tags", "priority", "source", "valid_from", "valid_to")
"""What search sees of an item, in the order of its digest. Its names are not among it: an item that has none gets one
where it is imported, and is the same all the same.
"""


def new_id(at: datetime) -> str:
    """A UUID of version 7: ids made later sort later, by the millisecond. Source: RFC 9562, section 5.7."""
    milliseconds = int(at.timestamp() * 1000) & ((1 << 48) - 1)
    bits = milliseconds << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76) | 0x7 << 76  # version
    bits = bits & ~(0x3 << 62) | 0x2 << 62  # variant
    return str(UUID(int=bits))


def digest_of(item: KnowledgeDraft) -> str:
    """SHA-256 of all that search sees, hex."""
    return sha256(to_json([getattr(item, field) for field in _SEEN])).hexdigest()


def item_of(
    draft: KnowledgeDraft, *, item: str, project: str, status: KnowledgeStatus, actor: str, at: datetime
) -> KnowledgeItem:
    """The first version of an item. Raises UnfitError."""
    fields = {field: getattr(draft, field) for field in KnowledgeDraft.model_fields}
    fields["tags"] = _each_once(draft.tags)
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
    return _checked(made)


def changed(item: KnowledgeItem, changes: Mapping[str, object], *, actor: str, at: datetime) -> KnowledgeItem | None:
    """The next version of an item; None when nothing of it would be another. Raises UnfitError.

    Args:
        item: The item as it is.
        changes: Valid values of fields of `KnowledgeDraft` and of `status`, by name.
        actor: Who changes it.
        at: When. Never before the version that it changes.
    """
    values = dict(changes)
    if isinstance(tags := values.get("tags"), tuple):
        values["tags"] = _each_once(tags)
    values = {field: value for field, value in values.items() if getattr(item, field) != value}
    if not values:
        return None
    said = {"version": item.version + 1, "updated_at": max(at, item.updated_at), "updated_by": actor}
    return _checked(item.model_copy(update={**values, **said}))


def _checked(item: KnowledgeItem) -> KnowledgeItem:
    if item.valid_from is not None and item.valid_to is not None and item.valid_from >= item.valid_to:
        raise UnfitError("`valid_to` is not after `valid_from`: it would never be found; correct one of them")
    return item.model_copy(update={"digest": digest_of(item)})


def _each_once(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))
