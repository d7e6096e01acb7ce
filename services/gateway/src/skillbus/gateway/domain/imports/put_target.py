"""Import of objects that have an id, and that one request of a service takes by the hundred."""

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeVar

from pydantic import Field, JsonValue

from skillbus.contracts.message import ProjectMessage
from skillbus.gateway.domain.imports.bulk import BulkImport, ImportEntry, ImportResult, LineResult, pair_results

_NAME_CHARACTERS: Final = 300

PutT = TypeVar("PutT")
PutT_co = TypeVar("PutT_co", covariant=True)
LineT = TypeVar("LineT", bound=LineResult)


class ImportOptions(ProjectMessage):
    """Options of every import."""

    first_line: int = Field(default=1, ge=1)
    """Number of the first line, for a body that is part of a larger import. Such a part may be empty."""
    only: Literal["problems"] | None = None
    """`problems` leaves lines without a problem out of `results`. `counts` still counts them."""


class PutReply(Protocol[PutT_co]):
    """Reply of a service: a result for each object, in the order of the request."""

    @property
    def results(self) -> tuple[PutT_co, ...]: ...

    @property
    def indexed(self) -> bool: ...


def get_text(value: Mapping[str, JsonValue], name: str) -> str | None:
    """Return the beginning of a text of an object that may be invalid; None if it has no such text."""
    text = value.get(name)
    return text[:_NAME_CHARACTERS] if isinstance(text, str) else None


def name_by_id(value: Mapping[str, JsonValue]) -> frozenset[str]:
    """Return the id of an object as its only name; no name if it has no readable id."""
    named = get_text(value, "id")
    return frozenset() if named is None else frozenset({named})


def _accept_object(_: Mapping[str, JsonValue]) -> str | None:
    """Return None: the service validates objects."""
    return None


@dataclass(frozen=True, slots=True)
class PutTarget(Generic[PutT, LineT]):
    """`ImportTarget` for objects of one kind."""

    objects: str
    service: str
    batch_items: int
    put: Callable[[tuple[JsonValue, ...]], Awaitable[PutReply[PutT]]]
    """Sends objects to the service. Raises RequestError."""
    make_line: Callable[[int, PutT], LineT]
    """Makes the result of a line."""
    make_rejected: Callable[[int, Mapping[str, JsonValue], str], LineT]
    """Makes the result of a line that is not sent, with the problem."""
    list_names: Callable[[Mapping[str, JsonValue]], frozenset[str]] = field(default=name_by_id)
    find_problem: Callable[[Mapping[str, JsonValue]], str | None] = field(default=_accept_object)

    def reject_entry(self, entry: ImportEntry, problem: str) -> LineT:
        return self.make_rejected(entry.line, entry.value or {}, problem)

    async def put_entries(self, entries: Sequence[ImportEntry]) -> ImportResult[LineT]:
        reply = await self.put(tuple(entry.value for entry in entries))
        paired = pair_results(self.service, entries, reply.results)
        return ImportResult(tuple(self.make_line(entry.line, put) for entry, put in paired), reply.indexed)


async def import_objects(
    body: AsyncIterable[bytes], target: PutTarget[PutT, LineT], options: ImportOptions, patience_s: float
) -> ImportResult[LineT]:
    """Send every valid object of a body to the service of the target.

    Raises:
        RequestError: The body is not a list of objects, or the bus or the service stayed away. Then `details` say
            how far the import came, and sending the whole body again does no harm.
    """
    return await BulkImport(
        target, patience_s, first_line=options.first_line, only_problems=options.only is not None
    ).import_body(body)
