"""All items of a knowledge base, a JSON object a line, a page at a time: no more than one page is held."""

from collections.abc import AsyncGenerator
from typing import Final

from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, ExportKnowledge, KnowledgeExported
from skillbus.gateway.domain.ports import BusCaller

MEDIA_TYPE: Final = "application/x-ndjson"
_PAGE: Final = 200


class KnowledgeExporter:
    """Reads from the learner what can be imported again."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def open(self, wanted: ExportKnowledge) -> AsyncGenerator[bytes]:
        """The items as NDJSON, after the first page is there.

        Raises:
            RequestError: The learner does not answer. Then or later: what was read by then is not all.
        """
        asked = wanted.model_copy(update={"limit": _PAGE})
        return self._lines(asked, await self._caller.call(EXPORT_KNOWLEDGE, asked))

    async def _lines(self, asked: ExportKnowledge, page: KnowledgeExported) -> AsyncGenerator[bytes]:
        yield _ndjson(page)
        while page.next is not None:
            page = await self._caller.call(EXPORT_KNOWLEDGE, asked.model_copy(update={"after": page.next}))
            yield _ndjson(page)


def _ndjson(page: KnowledgeExported) -> bytes:
    return "".join(f"{item.model_dump_json()}\n" for item in page.items).encode()
