"""Many tool descriptions in one body: cut while it streams, and put into the catalogue some hundreds at a time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import Field, JsonValue
from pydantic_core import from_json, to_json

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project, check_json
from skillbus.contracts.tools import (
    BUILTIN_SOURCE,
    MAX_TOOLS,
    MCP_SOURCE_PREFIX,
    PUT_TOOLS,
    SKILLS_SOURCE,
    PutOutcome,
    PutTools,
    Source,
    ToolFinding,
    ToolPut,
)
from skillbus.gateway.domain.cutting import LINE_BYTES, Cutter, Piece
from skillbus.gateway.domain.patience import patiently
from skillbus.gateway.domain.ports import BusCaller

BATCH_BYTES: Final = 700_000
"""Of one request on the bus, which takes 1 MiB with all that is around them."""
AT_ONCE: Final = 2
"""Requests of one body at the same time: one is embedded while the next is checked."""
LINES_MAX: Final = 200_000
"""What became of each is held until the body ends."""
STRANGE_MAX: Final = 100
"""After so many values that are no objects, and none that is one, the body is something else."""
_ID_CHARACTERS: Final = 300


class ImportWishes(Message):
    """How the descriptions of a body are taken."""

    project: Project = DEFAULT_PROJECT
    source: Source | None = None
    """Of all of them, whatever they say themselves."""
    review_changes: bool = False
    """Whether a known tool that is described otherwise, or a suspicious one, waits for an operator to accept it."""
    first_line: int = Field(default=1, ge=1)
    """Its number, where the body is a part of something larger: then a part with no description in it is no error."""
    only: Literal["problems"] | None = None
    """Leave what went well out of `results`; `counts` has it all the same."""


class LineImported(Message):
    """What became of one description."""

    line: int
    """From 1: the line of NDJSON, or the place in an array."""
    id: str | None = None
    outcome: PutOutcome
    error: str | None = None
    """Why it was rejected."""
    findings: tuple[ToolFinding, ...] = ()

    @property
    def is_problem(self) -> bool:
        """Whether somebody should look at it."""
        return bool(self.findings) or self.outcome in {PutOutcome.REJECTED, PutOutcome.QUARANTINED}


class ToolsImported(Message):
    """What became of a body."""

    total: int
    """Descriptions in it."""
    counts: dict[PutOutcome, int] = Field(default_factory=dict)
    """Each outcome with its number, 0 included."""
    indexed: bool
    """Whether search knows all of them by now; if not, it will when the store or the embedder is back."""
    results: tuple[LineImported, ...] = ()
    """In the order of the body."""


@dataclass(frozen=True, slots=True)
class _Description:
    """What stands at a line: `tool` is an object, unless there is a `problem`."""

    line: int
    id: str | None = None
    tool: JsonValue = None
    size_bytes: int = 0
    problem: str | None = None


@dataclass(slots=True)
class _Batch:
    """Descriptions of one request."""

    held: list[_Description] = field(default_factory=list)
    ids: set[str | None] = field(default_factory=set)
    size_bytes: int = 0

    def has_room(self, size_bytes: int) -> bool:
        return not self.held or (len(self.held) < MAX_TOOLS and self.size_bytes + size_bytes <= BATCH_BYTES)

    def add(self, description: _Description) -> None:
        self.held.append(description)
        self.ids.add(description.id)
        self.size_bytes += description.size_bytes


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
        work, cutter = _Import(self._caller, wishes, self._patience_s), Cutter()
        try:
            async for chunk in body:
                await work.add(cutter.feed(chunk))
            await work.add(cutter.end())
            return await work.finished()
        finally:
            await work.give_up()


class _Import:
    """One body on its way."""

    def __init__(self, caller: BusCaller, wishes: ImportWishes, patience_s: float) -> None:
        self._caller = caller
        self._wishes = wishes
        self._patience_s = patience_s
        self._batch = _Batch()
        self._flying: dict[asyncio.Task[None], _Batch] = {}
        self._results: list[LineImported] = []
        self._counts: Counter[PutOutcome] = Counter()
        self._indexed = True
        self._has_objects = False

    async def add(self, pieces: Iterable[Piece]) -> None:
        """Take what is good in them, and note what is not."""
        for piece in pieces:
            if piece.line > LINES_MAX:
                raise RequestError(
                    ErrorCode.PAYLOAD_TOO_LARGE, f"A body holds {LINES_MAX} lines at most: send the rest in another."
                )
            line = piece.line + self._wishes.first_line - 1
            description = _read(replace(piece, line=line), self._wishes.source)
            self._has_objects = self._has_objects or description.tool is not None
            if description.problem is None:
                await self._take(description)
            else:
                outcome, error = PutOutcome.REJECTED, description.problem
                self._note(LineImported(line=line, id=description.id, outcome=outcome, error=error))
                self._check_form(strange_max=STRANGE_MAX)

    async def finished(self) -> ToolsImported:
        """What became of all, once it is done."""
        self._check_form(strange_max=0)
        await self._send()
        while self._flying:
            await self._land()
        if not self._counts and self._wishes.first_line == 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, "The body is empty: send descriptions of tools, a JSON object a line."
            )
        kept = self._results if self._wishes.only is None else filter(lambda result: result.is_problem, self._results)
        return ToolsImported(
            total=self._counts.total(),
            counts={outcome: self._counts[outcome] for outcome in PutOutcome},
            indexed=self._indexed,
            results=tuple(sorted(kept, key=lambda result: result.line)),
        )

    async def give_up(self) -> None:
        """Wait for nothing any more."""
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)

    async def _take(self, description: _Description) -> None:
        if not self._batch.has_room(description.size_bytes):
            await self._send()
        self._batch.add(description)

    async def _send(self) -> None:
        batch, self._batch = self._batch, _Batch()
        if not batch.held:
            return
        # Of two descriptions of one tool the later must come later.
        while len(self._flying) >= AT_ONCE or any(batch.ids & other.ids for other in self._flying.values()):
            await self._land()
        self._flying[asyncio.create_task(self._put(batch))] = batch

    async def _land(self) -> None:
        """Wait for the first of the requests on their way."""
        done, _ = await asyncio.wait(self._flying, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            try:
                task.result()
            except RequestError as error:
                raise self._stopped(error) from error
            del self._flying[task]

    async def _put(self, batch: _Batch) -> None:
        tools = tuple(description.tool for description in batch.held)
        wishes = self._wishes
        request = PutTools(
            project=wishes.project, tools=tools, source=wishes.source, review_changes=wishes.review_changes
        )
        until = asyncio.get_running_loop().time() + self._patience_s
        reply = await patiently(lambda: self._caller.call(PUT_TOOLS, request), until)
        if len(reply.results) != len(tools):
            raise RequestError(
                ErrorCode.INTERNAL,
                f"The indexer said of {len(reply.results)} tools what became of them, not of {len(tools)}.",
            )
        self._indexed = self._indexed and reply.indexed
        for description, put in zip(batch.held, reply.results, strict=True):
            self._note(_result(description, put))

    def _note(self, result: LineImported) -> None:
        self._counts[result.outcome] += 1
        self._results.append(result)

    def _check_form(self, *, strange_max: int) -> None:
        """Refuse a body that is no descriptions at all, before its every line is called bad."""
        is_whole = self._wishes.first_line == 1
        if is_whole and not self._has_objects and len(self._results) > strange_max:
            first = self._results[0]
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "The body is neither NDJSON, a JSON object a line, nor a JSON array of objects: "
                f"line {first.line} {first.error}.",
            )

    def _stopped(self, error: RequestError) -> RequestError:
        """The error, with how far the import came."""
        line = min(batch.held[0].line for batch in self._flying.values())
        said = f"{error.message} Lines before {line} are done; to send all of them again does no harm."
        details: dict[str, JsonValue] = {"line": line, "counts": {str(it): n for it, n in self._counts.items()}}
        return RequestError(error.code, said, details=error.details | details, retryable=error.retryable)


def is_reserved(source: str) -> bool:
    """Whether only skillbus itself describes tools of this source."""
    return source in {BUILTIN_SOURCE, SKILLS_SOURCE} or source.startswith(MCP_SOURCE_PREFIX)


def reserved(source: str) -> str:
    """Why a source is refused."""
    return (
        f"source {source[:100]!r} is of tools that skillbus itself describes, as `{BUILTIN_SOURCE}`, `{SKILLS_SOURCE}` "
        f"and `{MCP_SOURCE_PREFIX}<server>` are: choose another name"
    )


def _read(piece: Piece, source: str | None) -> _Description:
    if piece.problem is not None:
        return _Description(piece.line, problem=piece.problem)
    try:
        tool = from_json(piece.text, allow_inf_nan=False)
    except ValueError as error:
        return _Description(piece.line, problem=f"is not JSON: {error}")
    if not isinstance(tool, dict):
        return _Description(piece.line, problem="is no JSON object")
    if problem := _not_carried(tool):
        return _Description(piece.line, _id_of(tool.get("id")), tool, problem=problem)
    size_bytes = len(to_json(tool))  # another one than on the line: 1e15 is written out
    problem = f"is longer than {LINE_BYTES} bytes" if size_bytes > LINE_BYTES else None
    own = tool.get("source")
    if source is None and isinstance(own, str) and is_reserved(own):
        problem = reserved(own)
    return _Description(piece.line, _id_of(tool.get("id")), tool, size_bytes, problem)


def _not_carried(tool: dict[str, JsonValue]) -> str | None:
    """Why the bus would refuse a whole request for what is in one description."""
    for name, value in tool.items():
        try:
            check_json(value)
        except ValueError as error:
            return f"{name[:50]}: {error}"
    return None


def _id_of(value: object) -> str | None:
    return value[:_ID_CHARACTERS] if isinstance(value, str) else None


def _result(description: _Description, put: ToolPut) -> LineImported:
    return LineImported(line=description.line, id=put.id, outcome=put.outcome, error=put.error, findings=put.findings)
