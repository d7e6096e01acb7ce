"""How much fits one message of the bus, whose limit is 1 MiB."""

from collections.abc import Sequence
from typing import Final, TypeVar

from pydantic_core import to_json

from skillbus.contracts.learner.knowledge import KnowledgeItem

MESSAGE_BYTES: Final = 800_000
"""The rest is for what surrounds the items: a list of ids, headers."""
_FRAME_BYTES: Final = 1_000
"""The names of an item's fields, and those of its values that are short."""

_CHARACTER_BYTES: Final = 6
"""Of a control character, as JSON writes it."""

ItemT = TypeVar("ItemT", bound=KnowledgeItem)


def most_bytes(item: KnowledgeItem) -> int:
    """An upper bound that is found at once: no character takes more than six bytes."""
    texts = (item.title, item.content, *item.tags, item.scope, item.owner, item.source_ref, item.external_id or "")
    shorter = (item.lang, item.created_by, item.updated_by)
    return _CHARACTER_BYTES * sum(map(len, (*texts, *shorter))) + 4 * len(item.tags) + _FRAME_BYTES


def item_bytes(item: KnowledgeItem) -> int:
    """An upper bound of what an item takes as JSON."""
    texts = (item.title, item.content, item.tags, item.scope, item.owner, item.source_ref, item.external_id)
    return len(to_json((texts, item.lang, item.created_by, item.updated_by))) + _FRAME_BYTES


def fitting(items: Sequence[ItemT]) -> Sequence[ItemT]:
    """As many of the first as fit a message: one at least, for none is larger."""
    used = 0
    for count, item in enumerate(items):
        used += item_bytes(item)
        if used > MESSAGE_BYTES:
            return items[:count]
    return items
