"""Many tool descriptions in one body, put into the catalogue."""

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
    ToolPut,
    ToolPutOutcome,
    ToolSource,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project
from skillbus.gateway.domain.imports.bulk import BulkImport, Entry, Part, Taken, paired
from skillbus.gateway.domain.ports import BusCaller

_ID_CHARACTERS: Final = 300


class ImportWishes(Message):
    """How the descriptions of a body are taken."""

    project: Project = DEFAULT_PROJECT
    source: ToolSource | None = None
    """Of all of them, whatever they say themselves."""
    review_changes: bool = False
    """Whether a known tool that is described otherwise, or a suspicious one, waits for an operator to accept it."""
    first_line: int = Field(default=1, ge=1)
    """Its number, where the body is a part of something larger: then a part with no description in it is no error."""
    only: Literal["problems"] | None = None
    """Leave what went well out of `results`; `counts` has it all the same."""


class ToolImporter:
    """Hands descriptions to the indexer.

    It asks again while the bus or the indexer is away: what is known already changes nothing.
    """

    def __init__(self, caller: BusCaller, *, patience_s: float) -> None:
        self._caller = caller
        self._patience_s = patience_s

    async def take(self, body: AsyncIterable[bytes], wishes: ImportWishes) -> ToolsImported:
        """Put every description of a body into the catalogue that is one.

        Raises:
            RequestError: The body is something else; or the bus or the indexer stayed away, and `details` say how far
                it came. To send all of it again does no harm.
        """
        if wishes.source is not None and is_reserved(wishes.source):
            raise RequestError(ErrorCode.INVALID_REQUEST, reserved(wishes.source))
        part = Part(wishes.first_line, only_problems=wishes.only is not None)
        taken = await BulkImport(_Descriptions(self._caller, wishes), part, self._patience_s).take(body)
        return ToolsImported(
            total=sum(taken.counts.values()),
            counts={outcome: taken.counts.get(outcome, 0) for outcome in ToolPutOutcome},
            indexed=taken.indexed,
            results=taken.results,
        )


@dataclass(frozen=True, slots=True)
class _Descriptions:
    """Descriptions of tools, which the indexer takes."""

    caller: BusCaller
    wishes: ImportWishes
    what: str = "descriptions of tools"
    most: int = MAX_TOOLS

    def names(self, value: Mapping[str, JsonValue]) -> frozenset[str]:
        """Its id."""
        tool_id = _id_of(value)
        return frozenset() if tool_id is None else frozenset({tool_id})

    def problem(self, value: Mapping[str, JsonValue]) -> str | None:
        """Whether it is of a source that others may not describe."""
        own = value.get("source")
        is_own = self.wishes.source is None and isinstance(own, str) and is_reserved(own)
        return reserved(str(own)) if is_own else None

    def rejected(self, entry: Entry, problem: str) -> ToolLineImported:
        """The result of one that is not handed on."""
        return ToolLineImported(
            line=entry.line, id=_id_of(entry.value or {}), outcome=ToolPutOutcome.REJECTED, error=problem
        )

    async def put(self, entries: Sequence[Entry]) -> Taken[ToolLineImported]:
        """Hand them to the indexer."""
        wishes, tools = self.wishes, tuple(entry.value for entry in entries)
        request = PutTools(
            project=wishes.project, tools=tools, source=wishes.source, review_changes=wishes.review_changes
        )
        reply = await self.caller.call(PUT_TOOLS, request)
        results = (_result(entry, put) for entry, put in paired(PUT_TOOLS.service, entries, reply.results))
        return Taken(tuple(results), reply.indexed)


def is_reserved(source: str) -> bool:
    """Whether only skillbus itself describes tools of this source."""
    return source in {BUILTIN_SOURCE, SKILLS_SOURCE} or source.startswith(MCP_SOURCE_PREFIX)


def reserved(source: str) -> str:
    """Why a source is refused."""
    return (
        f"source {source[:100]!r} is of tools that skillbus itself describes, as `{BUILTIN_SOURCE}`, `{SKILLS_SOURCE}` "
        f"and `{MCP_SOURCE_PREFIX}<server>` are: choose another name"
    )


def _id_of(value: Mapping[str, JsonValue]) -> str | None:
    tool_id = value.get("id")
    return tool_id[:_ID_CHARACTERS] if isinstance(tool_id, str) else None


def _result(entry: Entry, put: ToolPut) -> ToolLineImported:
    return ToolLineImported(line=entry.line, id=put.id, outcome=put.outcome, error=put.error, findings=put.findings)
