"""Import of knowledge items (a body of many, or one item as Markdown), and their export as NDJSON."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, JsonValue
from pydantic_core import to_json

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import KnowledgeImported, KnowledgeLineImported
from skillbus.contracts.learner.bulk import (
    EXPORT_KNOWLEDGE,
    MAX_ITEMS,
    PUT_KNOWLEDGE,
    ExportKnowledge,
    KnowledgePutOutcome,
    PutKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeSource, KnowledgeStatus, ReasonText
from skillbus.contracts.message import ProjectMessage
from skillbus.gateway.domain.imports.bulk import BulkImport, ImportEntry, ImportResult, pair_results
from skillbus.gateway.domain.knowledge_markdown import parse_markdown
from skillbus.gateway.domain.ports import BusCaller

NDJSON: Final = "application/x-ndjson"
MARKDOWN_BYTES: Final = 1024 * 1024
"""Largest item as Markdown, which is held as a whole. Its content has at most 32,000 characters."""
_ID_CHARACTERS: Final = 300
_WAIT_INDEXED_S: Final = 120.0
"""Longest wait of one body for the index, and the limit of `PutKnowledge.wait_indexed_s`."""
_PAGE_ITEMS: Final = 200
"""Items of an export that are held in memory."""


class KnowledgeImportOptions(ProjectMessage):
    """Options of an import of knowledge items."""

    source: KnowledgeSource | None = None
    """Source of items that name none. Absent means `import`."""
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """Status of new items."""
    dry_run: bool = False
    """True reports the results without writing anything."""
    reason: ReasonText = ""
    first_line: int = Field(default=1, ge=1)
    """Number of the first line, for a body that is part of a larger import. Such a part may be empty."""
    wait: Literal["indexed"] | None = None
    """`indexed` waits up to two minutes until search finds all items. Absent waits two seconds for each 200 items."""
    only: Literal["problems"] | None = None
    """`problems` leaves lines without a problem out of `results`. `counts` still counts them."""


class KnowledgeImporter:
    """Sends knowledge items to the learner, and retries while the bus or the learner is away."""

    def __init__(self, caller: BusCaller, *, patience_s: float) -> None:
        self._caller = caller
        self._patience_s = patience_s

    async def import_body(
        self, body: AsyncIterable[bytes], options: KnowledgeImportOptions, actor: str
    ) -> KnowledgeImported:
        """Put every valid item of a body, NDJSON or one JSON array, into the knowledge base.

        Raises:
            RequestError: The body is not a list of objects, or the bus or the learner stayed away. Then `details` say
                how far the import came, and sending the whole body again does no harm.
        """
        wait_until = asyncio.get_running_loop().time() + _WAIT_INDEXED_S if options.wait else None
        done = await BulkImport(
            _KnowledgeTarget(self._caller, options, actor, wait_until),
            self._patience_s,
            first_line=options.first_line,
            only_problems=options.only is not None,
        ).import_body(body)
        return KnowledgeImported(
            total=sum(done.counts.values()),
            counts={outcome: done.counts.get(outcome, 0) for outcome in KnowledgePutOutcome},
            dry_run=options.dry_run,
            indexed=done.indexed,
            unindexed=done.unindexed,
            results=done.results,
        )

    async def import_markdown(
        self, body: AsyncIterable[bytes], options: KnowledgeImportOptions, actor: str
    ) -> KnowledgeImported:
        """Put one item in Markdown with front matter into the knowledge base. Raises RequestError."""
        text = await _read_text(body)
        # In a thread: parsing YAML in Python is slow, and other requests must not wait for it.
        item = await asyncio.to_thread(parse_markdown, text)

        async def stream_item() -> AsyncIterator[bytes]:
            yield to_json(item)

        return await self.import_body(stream_item(), options, actor)


@dataclass(frozen=True, slots=True)
class _KnowledgeTarget:
    """`ImportTarget` for knowledge items, over the learner."""

    caller: BusCaller
    options: KnowledgeImportOptions
    actor: str
    wait_until: float | None
    """Time of the event loop until which to wait for the index. None leaves the wait to the learner."""
    objects: str = "knowledge items"
    batch_items: int = MAX_ITEMS

    def list_names(self, value: Mapping[str, JsonValue]) -> frozenset[str]:
        """Return id and external id: either can be the name that another line uses for the same item."""
        return frozenset(name for name in (_get_text(value, "id"), _get_text(value, "external_id")) if name is not None)

    def find_problem(self, value: Mapping[str, JsonValue]) -> str | None:
        """Return None: the learner validates items."""
        return None

    def reject_entry(self, entry: ImportEntry, problem: str) -> KnowledgeLineImported:
        value = entry.value or {}
        name = _get_text(value, "external_id") or _get_text(value, "id")
        return KnowledgeLineImported(
            line=entry.line, external_id=name, outcome=KnowledgePutOutcome.REJECTED, error=problem
        )

    async def put_entries(self, entries: Sequence[ImportEntry]) -> ImportResult[KnowledgeLineImported]:
        wait_s = None
        if self.wait_until is not None:
            wait_s = max(0.0, self.wait_until - asyncio.get_running_loop().time())
        request = PutKnowledge(
            project=self.options.project,
            items=tuple(entry.value for entry in entries),
            source=self.options.source,
            status=self.options.status,
            dry_run=self.options.dry_run,
            actor=self.actor,
            reason=self.options.reason,
            wait_indexed_s=wait_s,
        )
        reply = await self.caller.call(PUT_KNOWLEDGE, request, timeout_s=PUT_KNOWLEDGE.timeout_s + (wait_s or 0.0))
        results = (
            KnowledgeLineImported(line=entry.line, **dict(put))
            for entry, put in pair_results(PUT_KNOWLEDGE.service, entries, reply.results)
        )
        return ImportResult(tuple(results), reply.indexed, reply.unindexed)


def _get_text(value: Mapping[str, JsonValue], field: str) -> str | None:
    text = value.get(field)
    return text[:_ID_CHARACTERS] if isinstance(text, str) else None


async def _read_text(body: AsyncIterable[bytes]) -> str:
    text = bytearray()
    async for chunk in body:
        text += chunk
        if len(text) > MARKDOWN_BYTES:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"An item in Markdown may have {MARKDOWN_BYTES} bytes: split it."
            )
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The body is not UTF-8: {error}.") from error


async def open_export(caller: BusCaller, query: ExportKnowledge) -> AsyncGenerator[bytes]:
    """Return items as NDJSON in the form that an import takes, after the first page has arrived.

    Raises:
        RequestError: The learner does not reply, now or for a later page. Then the export is incomplete.
    """
    query = query.model_copy(update={"limit": _PAGE_ITEMS})
    first = await caller.call(EXPORT_KNOWLEDGE, query)

    async def write_pages() -> AsyncGenerator[bytes]:
        page = first
        while True:
            yield "".join(f"{item.model_dump_json()}\n" for item in page.items).encode()
            if page.next is None:
                return
            page = await caller.call(EXPORT_KNOWLEDGE, query.model_copy(update={"after": page.next}))

    return write_pages()
