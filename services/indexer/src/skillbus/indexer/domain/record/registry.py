"""Registry of things that are recorded as they are described: devices, and commands."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog
from pydantic import JsonValue

from skillbus.contracts.indexer.devices import PutOutcome
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Digested, Key
from skillbus.indexer.domain.record.ports import ListedRecords, RecordStore
from skillbus.indexer.domain.record.putter import PendingPut, RecordPutter, parse_values

log = structlog.get_logger(__name__)


class PlainRecord(Digested, Protocol):
    """A record that is its own entry in the index: its digest is that of everything in it."""


PlainT = TypeVar("PlainT", bound=PlainRecord)


@dataclass(frozen=True, slots=True)
class PlainDecision:
    """Decision about a description: every valid one is taken."""

    outcome: PutOutcome
    rejected: bool = False


_UNCHANGED: Final = PlainDecision(PutOutcome.UNCHANGED)


@dataclass(frozen=True, slots=True)
class PlainPut:
    """Result for one value of a request."""

    outcome: PutOutcome
    key: Key | None = None
    """None if the value was refused."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _PlainRules(Generic[PlainT]):
    listed: ListedRecords[Digested]

    async def find_unchanged(
        self, _: str, puts: Sequence[PendingPut[PlainT, PlainT, PlainDecision]]
    ) -> Sequence[PendingPut[PlainT, PlainT, PlainDecision]]:
        listed = await self.listed.find([put.key for put in puts])
        return [put for put in puts if (known := listed.get(put.key)) and known.digest == put.digest]

    def decide_unchanged(self) -> PlainDecision:
        return _UNCHANGED

    def decide_value(self, value: PlainT, earlier: PlainT | None) -> tuple[PlainDecision, PlainT | None]:
        if earlier is None:
            return PlainDecision(PutOutcome.CREATED), value
        if earlier.digest == value.digest:
            return _UNCHANGED, None
        return PlainDecision(PutOutcome.UPDATED), value

    def make_entry(self, record: PlainT) -> PlainT:
        return record

    async def report_written(self, puts: Sequence[PendingPut[PlainT, PlainT, PlainDecision]]) -> None:
        """Do nothing: nobody follows these records by events."""


class PlainRegistry(Generic[PlainT]):
    """Puts and removes records of one kind.

    Methods raise RequestError when the records are unavailable, WriteConflictError if one changes all the time.
    """

    def __init__(
        self, records: RecordStore[PlainT], listed: ListedRecords[Digested], index: Index[PlainT], kind: str
    ) -> None:
        """Make the registry. `kind` names one such thing, such as `device`."""
        rules: _PlainRules[PlainT] = _PlainRules(listed)
        self._putter = RecordPutter(records, index, rules, kind)
        self._kind = kind

    async def put(
        self, project: str, values: Sequence[JsonValue], parse: Callable[[JsonValue], PlainT]
    ) -> tuple[list[PlainPut], bool]:
        """Take values, each by itself. Return the results in their order, and whether the index has all of them.

        `parse` may raise RefusedValueError.
        """

        def prepare(at: int, value: JsonValue) -> PendingPut[PlainT, PlainT, PlainDecision]:
            record = parse(value)
            return PendingPut(at, record.key, record, record.digest)

        refused, puts = parse_values(values, prepare)
        indexed = await self._putter.put_values(project, puts)
        results = {put.at: PlainPut(put.get_decision().outcome, put.key) for put in puts}
        results |= {at: PlainPut(PutOutcome.REJECTED, error=error) for at, error in refused.items()}
        return [results[at] for at in range(len(values))], indexed

    async def remove(self, project: str, keys: Sequence[Key]) -> Sequence[Key]:
        """Remove records. Return the keys of those that existed, in order."""
        removed = await self._putter.remove_records(keys, lambda _: True)
        log.info("records_removed", kind=self._kind, project=project, records=len(removed))
        return removed


@dataclass(frozen=True, slots=True)
class RecordEntries(Generic[PlainT]):
    """Entries of all records of one kind."""

    records: RecordStore[PlainT]
    listed: ListedRecords[Digested]

    async def check_available(self) -> None:
        """Do nothing: without the bucket the indexer does not start."""

    async def iterate_entries(self, project: str | None = None) -> AsyncIterator[Digested]:
        for one in await self.listed.list_all(project):
            yield one

    async def load_entries(self, keys: Sequence[Key]) -> Sequence[PlainT]:
        stored = await self.records.load_records(keys)
        return [version.record for version in stored.values() if version.record is not None]
