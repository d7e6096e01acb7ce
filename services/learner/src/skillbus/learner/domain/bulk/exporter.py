"""Exports whole items, a page at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from skillbus.common.paging import cut_page
from skillbus.contracts.learner.bulk import ExportKnowledge, KnowledgeExported
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.domain.item.values import measure_item


class ExportRecord(Protocol):
    """The record, for exports."""

    async def export_items(self, wanted: ExportKnowledge, at: datetime) -> Sequence[KnowledgeItem]:
        """Return a page ordered by id, and audit the first page of an export. Raises KnowledgeUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class ItemExporter:
    """Cuts exports to pages that fit into a message."""

    record: ExportRecord
    now: Callable[[], datetime]

    async def export_page(self, wanted: ExportKnowledge) -> KnowledgeExported:
        items = await self.record.export_items(wanted, self.now())
        fit = cut_page(items, measure_item)
        more = len(fit) < len(items) or len(items) == wanted.limit
        return KnowledgeExported(items=tuple(fit), next=fit[-1].id if more else None)
