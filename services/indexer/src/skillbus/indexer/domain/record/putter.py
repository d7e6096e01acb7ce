"""Puts and removals of many records at once, of any kind.

The record is written first and the index follows. The reconciler, or the next identical request, indexes what a crash
left out.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog
from pydantic import JsonValue

from skillbus.common.records import RecordVersion, WriteConflictError
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import EntryT, EntryT_co, Key
from skillbus.indexer.domain.record.ports import RecordStore, RecordT, RecordUpdate
from skillbus.indexer.domain.record.values import RefusedValueError

ATTEMPTS: Final = 20
"""Attempts of one write. In each round of conflicts one of the writers succeeds."""

log = structlog.get_logger(__name__)

ValueT = TypeVar("ValueT")


class PutDecision(Protocol):
    """Decision about a value."""

    @property
    def rejected(self) -> bool:
        """True if the value is refused. The index stays as it is."""


DecisionT = TypeVar("DecisionT", bound=PutDecision)


@dataclass(slots=True)
class PendingPut(Generic[ValueT, RecordT, DecisionT]):
    """A value on its way into the records."""

    at: int
    """Position in the request."""
    key: Key
    value: ValueT
    digest: str
    """Digest of its entry in the index, if it is taken as it is."""
    decision: DecisionT | None = None
    record: RecordT | None = None
    """Record after the decision."""
    revision: int | None = None
    """Revision of the record if it was written."""

    def get_decision(self) -> DecisionT:
        """Return the decision of a put that has ended."""
        if self.decision is None:
            raise AssertionError("each value of a batch is decided, or the batch raises")
        return self.decision


def parse_values(
    values: Sequence[JsonValue], parse: Callable[[int, JsonValue], PendingPut[ValueT, RecordT, DecisionT]]
) -> tuple[dict[int, str], list[PendingPut[ValueT, RecordT, DecisionT]]]:
    """Parse the values of a request. Return the reasons of refusals by position, and the last value of each key.

    `parse` gets position and value, and may raise RefusedValueError.
    """
    refused, last = dict[int, str](), dict[Key, PendingPut[ValueT, RecordT, DecisionT]]()
    for at, value in enumerate(values):
        try:
            put = parse(at, value)
        except RefusedValueError as error:
            refused[at] = str(error)
            continue
        if (earlier := last.get(put.key)) is not None:
            refused[earlier.at] = f"is described again as number {at + 1}, which is taken instead"
        last[put.key] = put
    return refused, list(last.values())


class PutRules(Protocol[ValueT, RecordT, DecisionT, EntryT_co]):
    """Rules for records of one kind."""

    async def find_unchanged(
        self, project: str, puts: Sequence[PendingPut[ValueT, RecordT, DecisionT]]
    ) -> Sequence[PendingPut[ValueT, RecordT, DecisionT]]:
        """Return the values that are recorded as they are, without reading their records."""

    def decide_unchanged(self) -> DecisionT:
        """Return the decision about a value that is recorded and indexed already."""

    def decide_value(self, value: ValueT, earlier: RecordT | None) -> tuple[DecisionT, RecordT | None]:
        """Decide about a value over the earlier record. Return also the record to write; None if nothing changes."""

    def make_entry(self, record: RecordT) -> EntryT_co | None:
        """Return the entry of a record, or None if search should not find it."""

    async def report_written(self, puts: Sequence[PendingPut[ValueT, RecordT, DecisionT]]) -> None:
        """Report what the puts that were written mean to others."""


@dataclass(slots=True)
class _LateRecords:
    """Records of one request that the reconciler indexes later, because the index is unavailable."""

    kind: str
    count: int = 0
    reason: str = ""

    @contextmanager
    def note_failure(self, records: int) -> Generator[None]:
        """Note that the index could not follow for so many records."""
        try:
            yield
        except IndexUnavailableError as error:
            self.count += records
            self.reason = str(error)

    def log_failures(self) -> None:
        """Log once what was noted."""
        if self.count:
            log.warning("records_indexed_later", kind=self.kind, records=self.count, reason=self.reason)


@dataclass(frozen=True, slots=True)
class RecordPutter(Generic[ValueT, RecordT, DecisionT, EntryT]):
    """Writes and removes records in batches, and makes the index follow.

    Methods raise RequestError when the records are unavailable, WriteConflictError if one changes all the time.
    """

    records: RecordStore[RecordT]
    index: Index[EntryT]
    rules: PutRules[ValueT, RecordT, DecisionT, EntryT]
    kind: str
    """Name of one such thing, such as `tool`."""

    async def put_values(self, project: str, puts: Sequence[PendingPut[ValueT, RecordT, DecisionT]]) -> bool:
        """Take values of different keys, each by itself. Return False if the index gets some of them only later.

        An unchanged value is neither written nor embedded again.
        """
        changed = await self._skip_unchanged(project, puts)
        late = _LateRecords(self.kind)

        async def put(batch: Sequence[PendingPut[ValueT, RecordT, DecisionT]]) -> None:
            await self._put_batch(batch)
            with late.note_failure(len(batch)):
                await self._index_batch(batch)

        await write_batches(changed, put)
        late.log_failures()
        return not late.count

    async def remove_records(self, keys: Sequence[Key], may_remove: Callable[[RecordT], bool]) -> Sequence[Key]:
        """Remove the records that exist and may be removed. Return their keys, in order."""
        removed = list[Key]()
        late = _LateRecords(self.kind)

        async def remove(batch: Sequence[Key]) -> None:
            gone = await self._remove_batch(batch, may_remove)
            removed.extend(gone)
            with late.note_failure(len(gone)):
                await self.index.sync_entries(gone)

        await write_batches(list(dict.fromkeys(keys)), remove)
        late.log_failures()
        return sorted(removed)

    async def try_sync(self, keys: Sequence[Key]) -> None:
        """Make the index follow now if it is available; otherwise the reconciler does it later."""
        late = _LateRecords(self.kind)
        with late.note_failure(len(keys)):
            await self.index.sync_entries(keys)
        late.log_failures()

    def make_conflict(self, key: Key) -> WriteConflictError:
        """Return the error of a record that changed during each attempt."""
        project, record_id = key
        return WriteConflictError(f"The {self.kind} {record_id!r} of project {project!r}")

    async def _skip_unchanged(
        self, project: str, puts: Sequence[PendingPut[ValueT, RecordT, DecisionT]]
    ) -> Sequence[PendingPut[ValueT, RecordT, DecisionT]]:
        """Decide the values that are recorded and indexed already. Return the others.

        This does not read their records, which takes most of the time of a repeated import. If the first one is new,
        all are treated as new.
        """
        if not puts or await self.records.load_record(puts[0].key) is None:
            return puts
        same = await self.rules.find_unchanged(project, puts)
        try:
            current = await self.index.find_current(same)
        except IndexUnavailableError:
            return puts  # the later steps report it
        for put in same:
            if put.key in current:
                put.decision = self.rules.decide_unchanged()
        return [put for put in puts if put.decision is None]

    async def _put_batch(self, batch: Sequence[PendingPut[ValueT, RecordT, DecisionT]]) -> None:
        """Write a batch. If the first value is new, the others are treated as new until a write fails."""
        first, *others = batch
        stored = dict(await self.records.load_records([first.key]))
        if stored:
            stored |= await self.records.load_records([put.key for put in others])
        waiting = batch
        for _ in range(ATTEMPTS):
            waiting = await self._write_batch(waiting, stored)
            if not waiting:
                return
            stored = dict(await self.records.load_records([put.key for put in waiting]))
        raise self.make_conflict(waiting[0].key)

    async def _write_batch(
        self,
        batch: Sequence[PendingPut[ValueT, RecordT, DecisionT]],
        stored: Mapping[Key, RecordVersion[RecordT]],
    ) -> Sequence[PendingPut[ValueT, RecordT, DecisionT]]:
        """Decide and write a batch. Return the values whose record somebody else wrote since it was read."""
        writes = list[tuple[PendingPut[ValueT, RecordT, DecisionT], RecordUpdate[RecordT]]]()
        for put in batch:
            version = stored.get(put.key)
            earlier = version.record if version else None
            put.decision, record = self.rules.decide_value(put.value, earlier)
            put.record = earlier if record is None else record
            if record is not None:
                writes.append((put, RecordUpdate(record, version.revision if version else 0)))
        revisions = await self.records.save_records([write for _, write in writes]) if writes else ()
        for (put, _), revision in zip(writes, revisions, strict=True):
            put.revision = revision
        await self.rules.report_written([put for put, _ in writes if put.revision is not None])
        return [put for put, _ in writes if put.revision is None]

    async def _index_batch(self, batch: Sequence[PendingPut[ValueT, RecordT, DecisionT]]) -> None:
        """Index the records just written and any missing from the index. Raises IndexUnavailableError."""
        entries = {
            put.key: self.rules.make_entry(put.record)
            for put in batch
            if put.record is not None and not put.get_decision().rejected
        }

        async def is_settled() -> bool:
            if any(put.revision is None for put in changed):
                return False
            revisions = {put.key: put.revision for put in changed if put.revision is not None}
            return await self.records.is_unchanged_since(revisions)

        same = [entry for put in batch if put.revision is None and (entry := entries.get(put.key))]
        missing = {entry.key for entry in same} - await self.index.find_current(same)
        changed = [put for put in batch if put.revision is not None or put.key in missing]
        known = [entry for put in changed if (entry := entries[put.key])]
        await self.index.sync_entries([put.key for put in changed], known, is_settled)

    async def _remove_batch(self, keys: Sequence[Key], may_remove: Callable[[RecordT], bool]) -> Sequence[Key]:
        """Delete the records of a batch. Return the keys of those that were deleted."""
        removed, waiting = list[Key](), keys
        for _ in range(ATTEMPTS):
            stored = await self.records.load_records(waiting)
            revisions = {
                key: version.revision
                for key, version in stored.items()
                if version.record is not None and may_remove(version.record)
            }
            deleted = await self.records.delete_records(revisions) if revisions else ()
            waiting = [key for key, done in zip(revisions, deleted, strict=True) if not done]
            removed += [key for key, done in zip(revisions, deleted, strict=True) if done]
            if not waiting:
                return removed
        raise self.make_conflict(waiting[0])
