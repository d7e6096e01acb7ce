"""Import and export."""

from dataclasses import dataclass

from skillbus.common.bus.responder import Route, route
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, PUT_KNOWLEDGE
from skillbus.learner.domain.bulk.exporter import ItemExporter
from skillbus.learner.domain.bulk.importer import Importer


@dataclass(frozen=True, slots=True)
class ImportHandlers:
    """Answers those who bring and fetch many items."""

    importer: Importer
    exporting: ItemExporter

    def routes(self) -> tuple[Route, ...]:
        return (
            route(PUT_KNOWLEDGE, self.importer.put, permits=8),
            route(EXPORT_KNOWLEDGE, self.exporting.page, permits=8),
        )
