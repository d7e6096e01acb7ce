"""Many items of knowledge in one body, or one as Markdown, put into the knowledge base."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, JsonValue
from pydantic_core import to_json

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import KnowledgeImported, KnowledgeLineImported
from skillbus.contracts.learner.bulk import (
    MAX_ITEMS,
    PUT_KNOWLEDGE,
    KnowledgeItemPut,
    KnowledgePutOutcome,
    PutKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeSource, KnowledgeStatus, ReasonText
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project
from skillbus.gateway.domain.imports.bulk import BulkImport, Entry, Part, Taken, paired
from skillbus.gateway.domain.knowledge.markdown import from_markdown
from skillbus.gateway.domain.ports import BusCaller

MARKDOWN_BYTES: Final = 1024 * 1024
"""Of an item as Markdown, which is held as a whole. Its content is at most 32,000 characters."""
_ID_CHARACTERS: Final = 300
_WAIT_INDEXED_S: Final = 120.0
"""Longest wait of one body for the index; `PutKnowledge.wait_indexed_s` allows no more."""


class KnowledgeWishes(Message):
    """How the items of a body are taken."""

    project: Project = DEFAULT_PROJECT
    source: KnowledgeSource | None = None
    """Of items that name none; `import` if absent."""
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """Of new items."""
    dry_run: bool = False
    """Tell what would become of them, and write nothing."""
    reason: ReasonText = ""
    first_line: int = Field(default=1, ge=1)
    """Its number, where the body is a part of something larger: then a part with no item in it is no error."""
    wait: Literal["indexed"] | None = None
    """`indexed` waits up to two minutes until search finds all items; without it the reply waits two seconds for each
    200 items."""
    only: Literal["problems"] | None = None
    """Leave what went well out of `results`; `counts` has it all the same."""


class KnowledgeImporter:
    """Hands items to the learner.

    It asks again while the bus or the learner is away: what is as it was is left as it is.
    """

    def __init__(self, caller: BusCaller, *, patience_s: float) -> None:
        self._caller = caller
        self._patience_s = patience_s

    async def take(self, body: AsyncIterable[bytes], wishes: KnowledgeWishes, actor: str) -> KnowledgeImported:
        """Put every item of a body into the knowledge base that is one: NDJSON, or one JSON array.

        Raises:
            RequestError: The body is something else; or the bus or the learner stayed away, and `details` say how far
                it came. To send all of it again does no harm.
        """
        part = Part(wishes.first_line, only_problems=wishes.only is not None)
        wait_until = asyncio.get_running_loop().time() + _WAIT_INDEXED_S if wishes.wait else None
        taken = await BulkImport(_Items(self._caller, wishes, actor, wait_until), part, self._patience_s).take(body)
        return KnowledgeImported(
            total=sum(taken.counts.values()),
            counts={outcome: taken.counts.get(outcome, 0) for outcome in KnowledgePutOutcome},
            dry_run=wishes.dry_run,
            indexed=taken.indexed,
            unindexed=taken.unindexed,
            results=taken.results,
        )

    async def take_markdown(self, body: AsyncIterable[bytes], wishes: KnowledgeWishes, actor: str) -> KnowledgeImported:
        """The same of one item with its front matter."""
        text = await _text(body)
        # YAML is read in Python, and slowly: elsewhere others are answered meanwhile.
        item = await asyncio.to_thread(from_markdown, text)
        return await self.take(_whole(to_json(item)), wishes, actor)


@dataclass(frozen=True, slots=True)
class _Items:
    """Items of knowledge, which the learner takes."""

    caller: BusCaller
    wishes: KnowledgeWishes
    actor: str
    wait_until: float | None
    """Time of the loop until which the index is waited for; None leaves it to the learner."""
    what: str = "items of knowledge"
    most: int = MAX_ITEMS

    def names(self, value: Mapping[str, JsonValue]) -> frozenset[str]:
        """Its own id and that of others, as far as it tells them: either may be that of another line."""
        return frozenset(name for name in (_name(value, "id"), _name(value, "external_id")) if name is not None)

    def problem(self, value: Mapping[str, JsonValue]) -> str | None:
        """Nothing: the learner judges them."""
        return None

    def rejected(self, entry: Entry, problem: str) -> KnowledgeLineImported:
        """The result of one that is not handed on."""
        value = entry.value or {}
        named = _name(value, "external_id") or _name(value, "id")
        return KnowledgeLineImported(
            line=entry.line, external_id=named, outcome=KnowledgePutOutcome.REJECTED, error=problem
        )

    async def put(self, entries: Sequence[Entry]) -> Taken[KnowledgeLineImported]:
        """Hand them to the learner."""
        wishes, wait_s = self.wishes, None
        if self.wait_until is not None:
            wait_s = max(0.0, self.wait_until - asyncio.get_running_loop().time())
        request = PutKnowledge(
            project=wishes.project,
            items=tuple(entry.value for entry in entries),
            source=wishes.source,
            status=wishes.status,
            dry_run=wishes.dry_run,
            actor=self.actor,
            reason=wishes.reason,
            wait_indexed_s=wait_s,
        )
        reply = await self.caller.call(PUT_KNOWLEDGE, request, timeout_s=PUT_KNOWLEDGE.timeout_s + (wait_s or 0.0))
        results = (_result(entry, put) for entry, put in paired(PUT_KNOWLEDGE.service, entries, reply.results))
        return Taken(tuple(results), reply.indexed, reply.unindexed)


def _name(value: Mapping[str, JsonValue], field: str) -> str | None:
    name = value.get(field)
    return name[:_ID_CHARACTERS] if isinstance(name, str) else None


def _result(entry: Entry, put: KnowledgeItemPut) -> KnowledgeLineImported:
    return KnowledgeLineImported(
        line=entry.line,
        id=put.id,
        external_id=put.external_id,
        outcome=put.outcome,
        version=put.version,
        error=put.error,
    )


async def _text(body: AsyncIterable[bytes]) -> str:
    held = bytearray()
    async for chunk in body:
        held += chunk
        if len(held) > MARKDOWN_BYTES:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"An item as Markdown has {MARKDOWN_BYTES} bytes at most: cut it in two."
            )
    try:
        return held.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The body is not UTF-8: {error}.") from error


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
