"""Rows of the `knowledge` table as items.

They are not validated again: the record validated them on write, and a search reads fifty at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus, KnowledgeType
from skillbus.learner.adapters.sql.tables import KNOWLEDGE

_FIELDS: Final = tuple(KnowledgeItem.model_fields)
_TYPES: Final[Mapping[object, KnowledgeType]] = {kind.value: kind for kind in KnowledgeType}
_STATUSES: Final[Mapping[object, KnowledgeStatus]] = {status.value: status for status in KnowledgeStatus}
_NOTHING: Final[Mapping[str, Any]] = dict.fromkeys(_FIELDS)
_BLANK: Final = KnowledgeItem.model_construct(**_NOTHING)
"""Copying and filling a blank item takes half the time of `model_construct`."""

ITEM_COLUMNS: Final = tuple(KNOWLEDGE.c[name] for name in _FIELDS)
"""Columns that `parse_item` needs first in a row, in this order."""


def parse_item(row: Sequence[object]) -> KnowledgeItem:
    """Return the item of a row that begins with `ITEM_COLUMNS`."""
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=False))
    values["type"] = _TYPES[values["type"]]
    values["status"] = _STATUSES[values["status"]]
    values["tags"] = tuple(values["tags"])
    return _BLANK.model_copy(update=values)
