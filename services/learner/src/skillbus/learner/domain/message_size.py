"""Sizes of items in a message of the bus, whose limit is 1 MiB."""

from collections.abc import Sequence
from typing import Final, TypeVar

from pydantic_core import to_json

from skillbus.contracts.learner.knowledge import KnowledgeItem

MESSAGE_BYTES: Final = 800_000
"""Budget for items; the rest is for a list of ids and for headers."""
_FRAME_BYTES: Final = 1_000
"""Bound on the field names of an item and its short values."""
_CHARACTER_BYTES: Final = 6
"""Size of a control character in JSON, the largest of all characters."""

ItemT = TypeVar("ItemT", bound=KnowledgeItem)


def most_bytes(item: KnowledgeItem) -> int:
    """Return a rough upper bound of an item's size, without encoding it."""
    texts = (item.title, item.content, *item.tags, item.scope, item.owner, item.source_ref, item.external_id or "")
    shorter = (item.lang, item.created_by, item.updated_by)
    return _CHARACTER_BYTES * sum(map(len, (*texts, *shorter))) + 4 * len(item.tags) + _FRAME_BYTES


def item_bytes(item: KnowledgeItem) -> int:
    """Return an upper bound of an item's size as JSON."""
    texts = (item.title, item.content, item.tags, item.scope, item.owner, item.source_ref, item.external_id)
    return len(to_json((texts, item.lang, item.created_by, item.updated_by))) + _FRAME_BYTES


def fitting(items: Sequence[ItemT]) -> Sequence[ItemT]:
    """Return the first items that fit into one message together; at least one, for none is larger."""
    used = 0
    for count, item in enumerate(items):
        used += item_bytes(item)
        if used > MESSAGE_BYTES:
            return items[:count]
    return items
