"""Export: whole items, a page at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from skillbus.contracts.learner.bulk import ExportKnowledge, KnowledgeExported
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.domain.message_size import fitting


class ExportRecord(Protocol):
    """The record, for exports."""

    async def export(self, wanted: ExportKnowledge, at: datetime) -> Sequence[KnowledgeItem]:
        """A page in the order of ids; the first of an export is in the audit. Raises KnowledgeUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class ItemExporter:
    """Gives away what the record has."""

    record: ExportRecord
    now: Callable[[], datetime]

    async def page(self, wanted: ExportKnowledge) -> KnowledgeExported:
        items = await self.record.export(wanted, self.now())
        fit = fitting(items)
        more = len(fit) < len(items) or len(items) == wanted.limit
        return KnowledgeExported(items=tuple(fit), next=fit[-1].id if more else None)
