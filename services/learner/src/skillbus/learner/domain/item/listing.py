"""Lists of items, their versions, and differences between versions."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from skillbus.common.paging import cut_page, measure_json
from skillbus.contracts.learner.items import KnowledgeListed, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem
from skillbus.contracts.learner.versions import (
    DiffKnowledge,
    KnowledgeDiffed,
    KnowledgeFieldDiff,
    KnowledgeVersionsListed,
    ListKnowledgeVersions,
)
from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.item.ports import KnowledgeReader, ListPosition
from skillbus.learner.domain.item.text_diff import diff_texts

_FIELDS: Final = (*KnowledgeDraft.model_fields, "status")
_TEXTS: Final = frozenset({"title", "content"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_CURSOR: Final = re.compile(r"(-?[0-9]{1,18})\.([A-Za-z0-9-]{1,64})")


def encode_cursor(position: ListPosition) -> str:
    """Return the position as microseconds since 1970 and the id."""
    return f"{(position.updated_at - _EPOCH) // _MICROSECOND}.{position.item}"


def decode_cursor(cursor: str | None) -> ListPosition | None:
    """Return the position that `encode_cursor` encoded. Raises UnfitError."""
    if cursor is None:
        return None
    if (parts := _CURSOR.fullmatch(cursor)) is not None:
        with suppress(OverflowError):
            return ListPosition(_EPOCH + int(parts[1]) * _MICROSECOND, parts[2])
    raise UnfitError("`after` is not the `next` of an earlier page: send that, or nothing for the first page")


@dataclass(frozen=True, slots=True)
class ItemBrowser:
    """Lists items and versions, and compares versions. Every method raises LearnerError."""

    reader: KnowledgeReader

    async def list_items(self, request: ListKnowledge) -> KnowledgeListed:
        found = await self.reader.list_items(request, decode_cursor(request.after))
        items = cut_page(found.items, measure_json)
        more = found.more or len(items) < len(found.items)
        following = encode_cursor(ListPosition(items[-1].updated_at, items[-1].id)) if more else None
        return KnowledgeListed(items=tuple(items), total=found.total, next=following)

    async def list_versions(self, request: ListKnowledgeVersions) -> KnowledgeVersionsListed:
        found = await self.reader.list_versions(request.project, request.id, request.before, request.limit)
        following = found.versions[-1].version if found.more else None
        return KnowledgeVersionsListed(id=request.id, versions=tuple(found.versions), total=found.total, next=following)

    async def diff_versions(self, request: DiffKnowledge) -> KnowledgeDiffed:
        before = await self.reader.get_version(request.project, request.id, request.from_version)
        after = await self.reader.get_version(request.project, request.id, request.to_version)
        return KnowledgeDiffed(
            id=request.id,
            from_version=request.from_version,
            to_version=request.to_version,
            changes=await asyncio.to_thread(diff_items, before, after),
        )


def diff_items(before: KnowledgeItem, after: KnowledgeItem) -> tuple[KnowledgeFieldDiff, ...]:
    """Return the fields that differ, with word differences for title and content."""
    old, new = (item.model_dump(mode="json", include=set(_FIELDS)) for item in (before, after))
    return tuple(
        KnowledgeFieldDiff(
            field=field,
            before=old[field],
            after=new[field],
            spans=diff_texts(old[field], new[field]) if field in _TEXTS else (),
        )
        for field in _FIELDS
        if old[field] != new[field]
    )
