"""Lists of items, their versions, and differences between versions."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from skillbus.common.paging import cut_page, measure_json
from skillbus.contracts.learner.items import KnowledgeListed, KnowledgeSummary, ListKnowledge
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


def decode_cursor(name: Literal["after", "before"], cursor: str | None) -> ListPosition | None:
    """Return the position that `encode_cursor` encoded. Raises UnfitError with the name of the field."""
    if cursor is None:
        return None
    if (parts := _CURSOR.fullmatch(cursor)) is not None:
        with suppress(OverflowError):
            return ListPosition(_EPOCH + int(parts[1]) * _MICROSECOND, parts[2])
    origin = "next" if name == "after" else "previous"
    raise UnfitError(f"`{name}` is not the `{origin}` of another page: send that, or nothing for the first page")


@dataclass(frozen=True, slots=True)
class ItemBrowser:
    """Lists items and versions, and compares versions. Every method raises LearnerError."""

    reader: KnowledgeReader

    async def list_items(self, request: ListKnowledge) -> KnowledgeListed:
        if request.after is not None and request.before is not None:
            raise UnfitError("`after` and `before` cannot be combined: send one of them")
        backwards = request.before is not None
        start = decode_cursor("before", request.before) if backwards else decode_cursor("after", request.after)
        found = await self.reader.list_items(request, start)
        near = cut_page(found.items, measure_json)
        more = found.more or len(near) < len(found.items)
        items = tuple(reversed(near)) if backwards else tuple(near)
        has_next, has_previous = (True, more) if backwards else (more, start is not None)
        return KnowledgeListed(
            items=items,
            total=found.total,
            next=_point_to(items[-1]) if items and has_next else None,
            previous=_point_to(items[0]) if items and has_previous else None,
        )

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


def _point_to(item: KnowledgeSummary) -> str:
    return encode_cursor(ListPosition(item.updated_at, item.id))


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
