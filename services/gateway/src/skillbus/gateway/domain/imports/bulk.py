"""Import of a body with many JSON objects: the body is cut while it streams, and the objects are sent in batches.

An `ImportTarget` decides what the objects are and which service receives them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import check_json
from skillbus.gateway.domain.imports.cutter import LINE_BYTES, BodyCutter, BodyPiece
from skillbus.gateway.domain.ports import retry_while_away

CONCURRENT_BATCHES: Final = 2
"""Batches of one body in flight: one is embedded while the next is validated."""
LINES_MAX: Final = 200_000
"""Most lines of a body. The result of each is kept until the body ends."""
STRANGE_MAX: Final = 100
"""A body that starts with values other than objects is refused as a whole after this many."""


@dataclass(frozen=True, slots=True)
class ImportEntry:
    """Value of one line. `value` is an object, unless there is a `problem`."""

    line: int
    value: dict[str, JsonValue] | None = None
    names: frozenset[str] = frozenset()
    """Names of the described thing. Two entries with a common name must be written in their order."""
    size_bytes: int = 0
    """Size as JSON in a message."""
    problem: str | None = None


class LineResult(Protocol):
    """Result for one line."""

    @property
    def line(self) -> int: ...

    @property
    def outcome(self) -> str: ...

    @property
    def error(self) -> str | None: ...

    @property
    def is_problem(self) -> bool:
        """True if an operator should look at the line."""
        ...


ResultT = TypeVar("ResultT", bound=LineResult)
T = TypeVar("T")


class ImportTarget(Protocol[ResultT]):
    """Kind of the objects in a body, and the service that receives them."""

    @property
    def objects(self) -> str:
        """Plural noun for people, such as `descriptions of tools`."""
        ...

    @property
    def batch_items(self) -> int:
        """Most objects of one request."""
        ...

    def list_names(self, value: Mapping[str, JsonValue]) -> frozenset[str]:
        """Return the names of the described thing."""
        ...

    def find_problem(self, value: Mapping[str, JsonValue]) -> str | None:
        """Return the reason to reject an object without sending it; None if there is none."""
        ...

    def reject_entry(self, entry: ImportEntry, problem: str) -> ResultT:
        """Return the result of an entry that is not sent."""
        ...

    async def put_entries(self, entries: Sequence[ImportEntry]) -> "ImportResult[ResultT]":
        """Send entries to the service. It may be called again with the same entries. Raises RequestError."""
        ...


@dataclass(frozen=True, slots=True)
class ImportResult(Generic[ResultT]):
    """Results of entries."""

    results: tuple[ResultT, ...]
    """Results in the order of the entries."""
    indexed: bool
    """True if search finds all of them."""
    unindexed: int = 0
    """Number of entries that search does not find yet."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of lines by outcome in the whole body, including lines that are left out of `results`."""


@dataclass(slots=True)
class _Batch:
    """Entries of one request."""

    entries: list[ImportEntry] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    size_bytes: int = 0

    def has_room(self, entry: ImportEntry, max_entries: int) -> bool:
        return not self.entries or (
            len(self.entries) < max_entries and self.size_bytes + entry.size_bytes <= MESSAGE_BYTES
        )

    def add(self, entry: ImportEntry) -> None:
        self.entries.append(entry)
        self.names |= entry.names
        self.size_bytes += entry.size_bytes


class BulkImport(Generic[ResultT]):
    """Import of one body, or of a part of a larger import that begins at `first_line`."""

    def __init__(
        self, target: ImportTarget[ResultT], patience_s: float, *, first_line: int, only_problems: bool
    ) -> None:
        self._target = target
        self._patience_s = patience_s
        self._first_line = first_line
        self._only_problems = only_problems
        self._batch = _Batch()
        self._in_flight: dict[asyncio.Task[None], _Batch] = {}
        self._results: list[ResultT] = []
        self._counts: Counter[str] = Counter()
        self._indexed = True
        self._unindexed = 0
        self._has_objects = False

    async def import_body(self, body: AsyncIterable[bytes]) -> ImportResult[ResultT]:
        """Send every valid object of a body to the service.

        Raises:
            RequestError: The body is not a list of objects, or the bus or the service stayed away. Then `details` say
                how far the import came, and sending the whole body again does no harm.
        """
        cutter = BodyCutter()
        try:
            async for chunk in body:
                await self._add_pieces(cutter.feed(chunk))
            await self._add_pieces(cutter.end())
            return await self._finish()
        finally:
            for task in self._in_flight:
                task.cancel()
            await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _add_pieces(self, pieces: Iterable[BodyPiece]) -> None:
        for piece in pieces:
            if piece.line > LINES_MAX:
                raise RequestError(
                    ErrorCode.PAYLOAD_TOO_LARGE, f"A body may have {LINES_MAX} lines: send the rest in another request."
                )
            entry = self._parse(replace(piece, line=piece.line + self._first_line - 1))
            self._has_objects = self._has_objects or entry.value is not None
            if entry.problem is not None:
                self._note(self._target.reject_entry(entry, entry.problem))
                self._check_form(strange_max=STRANGE_MAX)
                continue
            if not self._batch.has_room(entry, self._target.batch_items):
                await self._send_batch()
            self._batch.add(entry)

    def _parse(self, piece: BodyPiece) -> ImportEntry:
        if piece.problem is not None:
            return ImportEntry(piece.line, problem=piece.problem)
        try:
            value = from_json(piece.text, allow_inf_nan=False)
        except ValueError as error:
            return ImportEntry(piece.line, problem=f"is not JSON: {error}")
        if not isinstance(value, dict):
            return ImportEntry(piece.line, problem="is not a JSON object")
        if problem := _find_json_problem(value):
            return ImportEntry(piece.line, value, problem=problem)
        size_bytes = len(to_json(value))  # the size of the line is different: 1e15 is written out
        too_long = f"is longer than {LINE_BYTES} bytes" if size_bytes > LINE_BYTES else None
        problem = too_long or self._target.find_problem(value)
        return ImportEntry(piece.line, value, self._target.list_names(value), size_bytes, problem)

    async def _finish(self) -> ImportResult[ResultT]:
        self._check_form(strange_max=0)
        await self._send_batch()
        while self._in_flight:
            await self._await_batch()
        if not self._counts and self._first_line == 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"The body is empty: send {self._target.objects}, one JSON object per line."
            )
        results = tuple(sorted(self._results, key=lambda result: result.line))
        return ImportResult(results, self._indexed, self._unindexed, self._counts)

    async def _send_batch(self) -> None:
        batch, self._batch = self._batch, _Batch()
        if not batch.entries:
            return
        # Entries with a common name must be written in their order, so they are never in flight together.
        while len(self._in_flight) >= CONCURRENT_BATCHES or any(
            batch.names & other.names for other in self._in_flight.values()
        ):
            await self._await_batch()

        async def put_batch() -> None:
            until = asyncio.get_running_loop().time() + self._patience_s
            put = await retry_while_away(lambda: self._target.put_entries(batch.entries), until)
            self._indexed = self._indexed and put.indexed
            self._unindexed += put.unindexed
            for result in put.results:
                self._note(result)

        self._in_flight[asyncio.create_task(put_batch())] = batch

    async def _await_batch(self) -> None:
        """Wait for the first batch in flight. Batches that succeeded are counted, even if another one failed."""
        done, _ = await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in done if task.exception() is not None]
        for task in done.difference(failed):
            del self._in_flight[task]
        for task in failed:
            try:
                task.result()
            except RequestError as error:
                line = min(batch.entries[0].line for batch in self._in_flight.values())
                message = f"{error.message} Lines before {line} are done; sending the whole body again does no harm."
                progress: dict[str, JsonValue] = {
                    "line": line,
                    "counts": {str(outcome): count for outcome, count in self._counts.items()},
                }
                details = error.details | progress
                raise RequestError(error.code, message, details=details, retryable=error.retryable) from error

    def _note(self, result: ResultT) -> None:
        self._counts[result.outcome] += 1
        if result.is_problem or not self._only_problems:
            self._results.append(result)

    def _check_form(self, *, strange_max: int) -> None:
        """Refuse a body without any object, instead of reporting every line."""
        is_whole = self._first_line == 1
        if is_whole and not self._has_objects and len(self._results) > strange_max:
            first = self._results[0]
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "The body is neither NDJSON (one JSON object per line) nor a JSON array of objects: "
                f"line {first.line} {first.error}.",
            )


def pair_results(service: str, entries: Sequence[ImportEntry], results: Sequence[T]) -> Iterator[tuple[ImportEntry, T]]:
    """Return each entry with its result.

    Raises:
        RequestError: `internal`: the number of results is wrong.
    """
    if len(results) != len(entries):
        raise RequestError(
            ErrorCode.INTERNAL, f"The {service} returned {len(results)} results for {len(entries)} objects."
        )
    return zip(entries, results, strict=True)


def _find_json_problem(value: Mapping[str, JsonValue]) -> str | None:
    """Return the reason why the bus would refuse a whole request because of this object."""
    for name, inner in value.items():
        try:
            check_json(inner)
        except ValueError as error:
            return f"{name[:50]}: {error}"
    return None
