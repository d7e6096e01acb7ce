"""Many JSON objects in one body: cut while it streams, and taken some hundreds at a time.

What they are of, and who takes them, an `Intake` says.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import check_json
from skillbus.gateway.domain.imports.cutter import LINE_BYTES, Cutter, Piece
from skillbus.gateway.domain.retry import patiently

BATCH_BYTES: Final = 700_000
"""Of one request on the bus, which takes 1 MiB with all that is around them."""
AT_ONCE: Final = 2
"""Requests of one body at the same time: one is embedded while the next is checked."""
LINES_MAX: Final = 200_000
"""What became of each is held until the body ends."""
STRANGE_MAX: Final = 100
"""After so many values that are no objects, and none that is one, the body is something else."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at a line: `value` is an object, unless there is a `problem`."""

    line: int
    value: dict[str, JsonValue] | None = None
    names: frozenset[str] = frozenset()
    """What it is of: of two with a name in common the later must come later."""
    size_bytes: int = 0
    """As it travels."""
    problem: str | None = None


class LineResult(Protocol):
    """What became of a line."""

    @property
    def line(self) -> int: ...

    @property
    def outcome(self) -> str: ...

    @property
    def error(self) -> str | None: ...

    @property
    def is_problem(self) -> bool:
        """Whether somebody should look at it."""
        ...


ResultT = TypeVar("ResultT", bound=LineResult)
T = TypeVar("T")


class Intake(Protocol[ResultT]):
    """What the objects of a body are, and who takes them."""

    @property
    def what(self) -> str:
        """For people: `descriptions of tools`."""
        ...

    @property
    def most(self) -> int:
        """Entries of one request."""
        ...

    def names(self, value: Mapping[str, JsonValue]) -> frozenset[str]:
        """What an object is of."""
        ...

    def problem(self, value: Mapping[str, JsonValue]) -> str | None:
        """Why an object is not even handed on."""
        ...

    def rejected(self, entry: Entry, problem: str) -> ResultT:
        """The result of an entry that is not handed on."""
        ...

    async def put(self, entries: Sequence[Entry]) -> "Taken[ResultT]":
        """Hand entries on. Raises `RequestError`; it may be asked again with the same ones."""
        ...


@dataclass(frozen=True, slots=True)
class Taken(Generic[ResultT]):
    """What became of entries."""

    results: tuple[ResultT, ...]
    """In their order."""
    indexed: bool
    """Whether search knows all of them."""
    unindexed: int = 0
    """Number of entries that search does not know yet."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By outcome, of the whole body: also of those that are left out of the results."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of something a body is, and what is said of it."""

    first_line: int = 1
    only_problems: bool = False


@dataclass(slots=True)
class _Batch:
    """Entries of one request."""

    held: list[Entry] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    size_bytes: int = 0

    def has_room(self, entry: Entry, most: int) -> bool:
        return not self.held or (len(self.held) < most and self.size_bytes + entry.size_bytes <= BATCH_BYTES)

    def add(self, entry: Entry) -> None:
        self.held.append(entry)
        self.names |= entry.names
        self.size_bytes += entry.size_bytes


class BulkImport(Generic[ResultT]):
    """One body on its way."""

    def __init__(self, intake: Intake[ResultT], part: Part, patience_s: float) -> None:
        self._intake = intake
        self._part = part
        self._patience_s = patience_s
        self._batch = _Batch()
        self._flying: dict[asyncio.Task[None], _Batch] = {}
        self._results: list[ResultT] = []
        self._counts: Counter[str] = Counter()
        self._indexed = True
        self._unindexed = 0
        self._has_objects = False

    async def take(self, body: AsyncIterable[bytes]) -> Taken[ResultT]:
        """Hand on every object of a body that can be.

        Raises:
            RequestError: The body is something else; or the bus or the service stayed away, and `details` say how far
                it came. To send all of it again does no harm.
        """
        cutter = Cutter()
        try:
            async for chunk in body:
                await self._add(cutter.feed(chunk))
            await self._add(cutter.end())
            return await self._finished()
        finally:
            await self._give_up()

    async def _add(self, pieces: Iterable[Piece]) -> None:
        """Take what is good in them, and note what is not."""
        for piece in pieces:
            if piece.line > LINES_MAX:
                raise RequestError(
                    ErrorCode.PAYLOAD_TOO_LARGE, f"A body holds {LINES_MAX} lines at most: send the rest in another."
                )
            entry = self._read(replace(piece, line=piece.line + self._part.first_line - 1))
            self._has_objects = self._has_objects or entry.value is not None
            if entry.problem is None:
                await self._take(entry)
            else:
                self._note(self._intake.rejected(entry, entry.problem))
                self._check_form(strange_max=STRANGE_MAX)

    def _read(self, piece: Piece) -> Entry:
        if piece.problem is not None:
            return Entry(piece.line, problem=piece.problem)
        try:
            value = from_json(piece.text, allow_inf_nan=False)
        except ValueError as error:
            return Entry(piece.line, problem=f"is not JSON: {error}")
        if not isinstance(value, dict):
            return Entry(piece.line, problem="is no JSON object")
        if problem := _not_carried(value):
            return Entry(piece.line, value, problem=problem)
        size_bytes = len(to_json(value))  # another one than on the line: 1e15 is written out
        problem = f"is longer than {LINE_BYTES} bytes" if size_bytes > LINE_BYTES else self._intake.problem(value)
        return Entry(piece.line, value, self._intake.names(value), size_bytes, problem)

    async def _finished(self) -> Taken[ResultT]:
        """What became of all, once it is done."""
        self._check_form(strange_max=0)
        await self._send()
        while self._flying:
            await self._land()
        if not self._counts and self._part.first_line == 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"The body is empty: send {self._intake.what}, a JSON object a line."
            )
        kept = (result for result in self._results if result.is_problem or not self._part.only_problems)
        return Taken(tuple(sorted(kept, key=lambda result: result.line)), self._indexed, self._unindexed, self._counts)

    async def _give_up(self) -> None:
        """Wait for nothing any more."""
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)

    async def _take(self, entry: Entry) -> None:
        if not self._batch.has_room(entry, self._intake.most):
            await self._send()
        self._batch.add(entry)

    async def _send(self) -> None:
        batch, self._batch = self._batch, _Batch()
        if not batch.held:
            return
        # Of two objects of one name the later must come later.
        while len(self._flying) >= AT_ONCE or any(batch.names & other.names for other in self._flying.values()):
            await self._land()
        self._flying[asyncio.create_task(self._put(batch))] = batch

    async def _land(self) -> None:
        """Wait for the first of the requests on their way. What is done is counted as done, whatever else failed."""
        done, _ = await asyncio.wait(self._flying, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in done if task.exception() is not None]
        for task in done.difference(failed):
            del self._flying[task]
        for task in failed:
            try:
                task.result()
            except RequestError as error:
                raise self._stopped(error) from error

    async def _put(self, batch: _Batch) -> None:
        until = asyncio.get_running_loop().time() + self._patience_s
        taken = await patiently(lambda: self._intake.put(batch.held), until)
        self._indexed = self._indexed and taken.indexed
        self._unindexed += taken.unindexed
        for result in taken.results:
            self._note(result)

    def _note(self, result: ResultT) -> None:
        self._counts[result.outcome] += 1
        self._results.append(result)

    def _check_form(self, *, strange_max: int) -> None:
        """Refuse a body that is no objects at all, before its every line is called bad."""
        is_whole = self._part.first_line == 1
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


def paired(service: str, entries: Sequence[Entry], told: Sequence[T]) -> Iterator[tuple[Entry, T]]:
    """Each entry with what a service said of it.

    Raises:
        RequestError: `internal`: it did not speak of each.
    """
    if len(told) != len(entries):
        raise RequestError(
            ErrorCode.INTERNAL,
            f"The {service} said of {len(told)} objects what became of them, not of {len(entries)}.",
        )
    return zip(entries, told, strict=True)


def _not_carried(value: Mapping[str, JsonValue]) -> str | None:
    """Why the bus would refuse a whole request for what is in one object."""
    for name, inner in value.items():
        try:
            check_json(inner)
        except ValueError as error:
            return f"{name[:50]}: {error}"
    return None
