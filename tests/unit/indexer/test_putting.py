"""Puts and removals of many records beside other writers."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from skillbus.common.records import RecordVersion, WriteConflictError
from skillbus.contracts.indexer.devices import Device, PutOutcome
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.home.device import DeviceRecord, parse_device
from skillbus.indexer.domain.index.ports import Digested, Key
from skillbus.indexer.domain.record.ports import RecordUpdate
from skillbus.indexer.domain.record.registry import PlainRegistry


@dataclass
class Records:
    """Records in memory, and another writer that acts before each write."""

    stored: dict[Key, RecordVersion[DeviceRecord]] = field(default_factory=dict)
    interfere: Callable[["Records"], None] = lambda _: None

    async def load_record(self, key: Key) -> RecordVersion[DeviceRecord] | None:
        return self.stored.get(key)

    async def load_records(self, keys: Sequence[Key]) -> Mapping[Key, RecordVersion[DeviceRecord]]:
        return {key: self.stored[key] for key in keys if key in self.stored}

    async def save_records(self, updates: Sequence[RecordUpdate[DeviceRecord]]) -> Sequence[int | None]:
        self.interfere(self)
        return [self.write(update.record.key, update.record, update.over) for update in updates]

    async def delete_records(self, revisions: Mapping[Key, int]) -> Sequence[bool]:
        self.interfere(self)
        return [self.write(key, None, over) is not None for key, over in revisions.items()]

    async def is_unchanged_since(self, revisions: Mapping[Key, int]) -> bool:
        return all(self.stored[key].revision == revision for key, revision in revisions.items())

    async def iterate_records(self, project: str | None = None) -> AsyncIterator[DeviceRecord]:
        for version in self.stored.values():
            if version.record is not None and project in {None, version.record.project}:
                yield version.record

    async def list_all(self, project: str | None = None) -> Sequence[Digested]:
        return [record async for record in self.iterate_records(project)]

    list_project = list_all

    async def find(self, keys: Sequence[Key]) -> Mapping[Key, Digested]:
        return {key: it.record for key, it in (await self.load_records(keys)).items() if it.record}

    def write(self, key: Key, record: DeviceRecord | None, over: int) -> int | None:
        if self.stored.get(key, RecordVersion(None, 0)).revision != over:
            return None
        self.stored[key] = RecordVersion(record, over + 1)
        return over + 1

    def write_anew(self, name: str) -> None:
        record = make_record(name)
        self.write(record.key, record, self.stored.get(record.key, RecordVersion(None, 0)).revision)


class Unreachable:
    """An index that cannot be reached."""

    async def find_current(self, _: object) -> frozenset[Key]:
        raise IndexUnavailableError("the store is away")

    async def sync_entries(self, *_: object) -> None:
        raise IndexUnavailableError("the store is away")


def make_record(name: str, device_id: str = "lamp-1") -> DeviceRecord:
    return DeviceRecord(device=Device(home="Home", id=device_id, name=name, type="light"))


def make_registry(records: Records) -> PlainRegistry[DeviceRecord]:
    index: Any = Unreachable()
    return PlainRegistry(records, records, index, "device")


async def put(records: Records, name: str) -> PutOutcome:
    value = make_record(name).device.model_dump(mode="json")
    [result], _ = await make_registry(records).put("default", [value], lambda it: parse_device("default", None, it))
    return result.outcome


def once(*acts: Callable[[Records], None]) -> Callable[[Records], None]:
    waiting = list(acts)
    return lambda records: waiting.pop(0)(records) if waiting else None


async def test_a_put_that_somebody_else_overtakes_decides_again() -> None:
    records = Records(interfere=once(lambda it: it.write_anew("Desk lamp"), lambda it: it.write_anew("Night light")))
    assert await put(records, "Floor lamp") is PutOutcome.UPDATED
    assert [it.device.name async for it in records.iterate_records()] == ["Floor lamp"]


async def test_a_put_of_what_somebody_else_has_just_put_changes_nothing() -> None:
    records = Records(interfere=once(lambda it: it.write_anew("Floor lamp")))
    assert await put(records, "Floor lamp") is PutOutcome.UNCHANGED
    assert records.stored[make_record("x").key].revision == 1


async def test_a_removal_that_somebody_else_overtakes_is_tried_again() -> None:
    records = Records()
    await put(records, "Floor lamp")
    records.interfere = once(lambda it: it.write_anew("Desk lamp"))
    key = make_record("x").key
    assert await make_registry(records).remove("default", [key, key]) == [key]
    assert records.stored[key].record is None
    assert await make_registry(records).remove("default", [key]) == []


async def test_a_record_that_changes_all_the_time_is_a_conflict_that_names_it() -> None:
    changes = iter(range(1000))
    records = Records(interfere=lambda it: it.write_anew(f"Lamp {next(changes)}"))
    with pytest.raises(WriteConflictError, match="The device 'Home/lamp-1' of project 'default'"):
        await put(records, "Floor lamp")
    with pytest.raises(WriteConflictError):
        await make_registry(records).remove("default", [make_record("x").key])


async def test_what_is_indexed_later_is_logged_once_for_a_request() -> None:
    values = [make_record("Lamp", f"lamp-{number}").device.model_dump(mode="json") for number in range(100)]
    with capture_logs() as logs:
        results, indexed = await make_registry(Records()).put(
            "default", values, lambda it: parse_device("default", None, it)
        )
    assert ({result.outcome for result in results}, indexed) == ({PutOutcome.CREATED}, False)
    assert [(entry["event"], entry["records"]) for entry in logs] == [("records_indexed_later", 100)]
