"""Export of knowledge items as NDJSON. At most one page is held in memory."""

from collections.abc import AsyncGenerator
from typing import Final

from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, ExportKnowledge, KnowledgeExported
from skillbus.gateway.domain.ports import BusCaller

MEDIA_TYPE: Final = "application/x-ndjson"
_PAGE_ITEMS: Final = 200


class KnowledgeExporter:
    """Reads items from the learner, in the form that an import takes."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def open_export(self, query: ExportKnowledge) -> AsyncGenerator[bytes]:
        """Return the items as NDJSON, after the first page has arrived.

        Raises:
            RequestError: The learner does not reply, now or for a later page. Then the export is incomplete.
        """
        query = query.model_copy(update={"limit": _PAGE_ITEMS})
        return self._write_pages(query, await self._caller.call(EXPORT_KNOWLEDGE, query))

    async def _write_pages(self, query: ExportKnowledge, page: KnowledgeExported) -> AsyncGenerator[bytes]:
        while True:
            yield "".join(f"{item.model_dump_json()}\n" for item in page.items).encode()
            if page.next is None:
                return
            page = await self._caller.call(EXPORT_KNOWLEDGE, query.model_copy(update={"after": page.next}))
