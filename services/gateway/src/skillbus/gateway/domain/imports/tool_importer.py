"""Import of tool descriptions into the catalogue."""

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, JsonValue

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolLineImported, ToolsImported
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    MAX_TOOLS,
    MCP_SOURCE_PREFIX,
    PUT_TOOLS,
    SKILLS_SOURCE,
    PutTools,
    ToolPutOutcome,
    ToolSource,
)
from skillbus.contracts.message import ProjectMessage
from skillbus.gateway.domain.imports.bulk import BulkImport, ImportEntry, ImportResult, pair_results
from skillbus.gateway.domain.ports import BusCaller

_ID_CHARACTERS: Final = 300


class ToolImportOptions(ProjectMessage):
    """Options of an import of tool descriptions."""

    source: ToolSource | None = None
    """Source of all descriptions. It overrides the `source` of each."""
    review_changes: bool = False
    """True holds changed descriptions of known tools and suspicious descriptions until an operator accepts them."""
    first_line: int = Field(default=1, ge=1)
    """Number of the first line, for a body that is part of a larger import. Such a part may be empty."""
    only: Literal["problems"] | None = None
    """`problems` leaves lines without a problem out of `results`. `counts` still counts them."""


class ToolImporter:
    """Sends tool descriptions to the indexer, and retries while the bus or the indexer is away."""

    def __init__(self, caller: BusCaller, *, patience_s: float) -> None:
        self._caller = caller
        self._patience_s = patience_s

    async def import_body(self, body: AsyncIterable[bytes], options: ToolImportOptions) -> ToolsImported:
        """Put every valid description of a body into the catalogue.

        Raises:
            RequestError: The body is not a list of objects, or the bus or the indexer stayed away. Then `details` say
                how far the import came, and sending the whole body again does no harm.
        """
        if options.source is not None and is_reserved(options.source):
            raise RequestError(ErrorCode.INVALID_REQUEST, explain_reserved(options.source))
        done = await BulkImport(
            _ToolTarget(self._caller, options),
            self._patience_s,
            first_line=options.first_line,
            only_problems=options.only is not None,
        ).import_body(body)
        return ToolsImported(
            total=sum(done.counts.values()),
            counts={outcome: done.counts.get(outcome, 0) for outcome in ToolPutOutcome},
            indexed=done.indexed,
            results=done.results,
        )


@dataclass(frozen=True, slots=True)
class _ToolTarget:
    """`ImportTarget` for tool descriptions, over the indexer."""

    caller: BusCaller
    options: ToolImportOptions
    objects: str = "descriptions of tools"
    batch_items: int = MAX_TOOLS

    def list_names(self, value: Mapping[str, JsonValue]) -> frozenset[str]:
        tool_id = _get_id(value)
        return frozenset() if tool_id is None else frozenset({tool_id})

    def find_problem(self, value: Mapping[str, JsonValue]) -> str | None:
        source = value.get("source")
        is_refused = self.options.source is None and isinstance(source, str) and is_reserved(source)
        return explain_reserved(str(source)) if is_refused else None

    def reject_entry(self, entry: ImportEntry, problem: str) -> ToolLineImported:
        tool_id = _get_id(entry.value or {})
        return ToolLineImported(line=entry.line, id=tool_id, outcome=ToolPutOutcome.REJECTED, error=problem)

    async def put_entries(self, entries: Sequence[ImportEntry]) -> ImportResult[ToolLineImported]:
        request = PutTools(
            project=self.options.project,
            tools=tuple(entry.value for entry in entries),
            source=self.options.source,
            review_changes=self.options.review_changes,
        )
        reply = await self.caller.call(PUT_TOOLS, request)
        results = (
            ToolLineImported(line=entry.line, id=put.id, outcome=put.outcome, error=put.error, findings=put.findings)
            for entry, put in pair_results(PUT_TOOLS.service, entries, reply.results)
        )
        return ImportResult(tuple(results), reply.indexed)


def is_reserved(source: str) -> bool:
    """Return True if only skillbus itself may describe tools of this source."""
    return source in {BUILTIN_SOURCE, SKILLS_SOURCE} or source.startswith(MCP_SOURCE_PREFIX)


def explain_reserved(source: str) -> str:
    """Return the reason why a reserved source is refused."""
    return (
        f"source {source[:100]!r} is reserved for tools that skillbus itself describes, like `{BUILTIN_SOURCE}`, "
        f"`{SKILLS_SOURCE}` and `{MCP_SOURCE_PREFIX}<server>`: choose another name"
    )


def _get_id(value: Mapping[str, JsonValue]) -> str | None:
    tool_id = value.get("id")
    return tool_id[:_ID_CHARACTERS] if isinstance(tool_id, str) else None
