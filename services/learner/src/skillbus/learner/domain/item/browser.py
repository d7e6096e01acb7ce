"""Lists of items, their versions, and what differs between those."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.learner.items import KnowledgeListed, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem
from skillbus.contracts.learner.versions import (
    DiffKnowledge,
    KnowledgeDiffed,
    KnowledgeFieldDiff,
    KnowledgeVersionsListed,
    ListKnowledgeVersions,
)
from skillbus.learner.domain.item import cursor as pages
from skillbus.learner.domain.item.ports import KnowledgeReader, Place
from skillbus.learner.domain.item.text_diff import spans

_FIELDS: Final = (*KnowledgeDraft.model_fields, "status")
_TEXTS: Final = frozenset({"title", "content"})


@dataclass(frozen=True, slots=True)
class ItemBrowser:
    """Everything raises LearnerError."""

    reader: KnowledgeReader

    async def page(self, request: ListKnowledge) -> KnowledgeListed:
        found = await self.reader.page(request, pages.read(request.after))
        items = pages.fitting(found.items)
        more = found.more or len(items) < len(found.items)
        last = pages.written(Place(items[-1].updated_at, items[-1].id)) if more else None
        return KnowledgeListed(items=tuple(items), total=found.total, next=last)

    async def versions(self, request: ListKnowledgeVersions) -> KnowledgeVersionsListed:
        found = await self.reader.versions(request.project, request.id, request.before, request.limit)
        last = found.versions[-1].version if found.more else None
        return KnowledgeVersionsListed(id=request.id, versions=tuple(found.versions), total=found.total, next=last)

    async def diff(self, request: DiffKnowledge) -> KnowledgeDiffed:
        before = await self.reader.at_version(request.project, request.id, request.from_version)
        after = await self.reader.at_version(request.project, request.id, request.to_version)
        return KnowledgeDiffed(
            id=request.id,
            from_version=request.from_version,
            to_version=request.to_version,
            changes=await asyncio.to_thread(differences, before, after),
        )


def differences(before: KnowledgeItem, after: KnowledgeItem) -> tuple[KnowledgeFieldDiff, ...]:
    """The fields that differ."""
    old, new = _values(before), _values(after)
    return tuple(_difference(field, old[field], new[field]) for field in _FIELDS if old[field] != new[field])


def _values(item: KnowledgeItem) -> Mapping[str, JsonValue]:
    values: dict[str, JsonValue] = item.model_dump(mode="json", include=set(_FIELDS))
    return values


def _difference(field: str, old: JsonValue, new: JsonValue) -> KnowledgeFieldDiff:
    said = spans(old, new) if field in _TEXTS and isinstance(old, str) and isinstance(new, str) else ()
    return KnowledgeFieldDiff(field=field, before=old, after=new, spans=said)
