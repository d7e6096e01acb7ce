"""Records in a key-value bucket: compare-and-set, deletions, damaged values."""

from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords, RecordWrite
from skillbus.common.records import RecordVersion, StoredRecord, WriteConflictError
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import CATALOGUE


class Note(BaseModel):
    key: str
    text: str = ""


ONE, OTHER = Note(key="p.one", text="first"), Note(key="p.one", text="second")


def notes(bus: Bus, **options: Any) -> KvRecords[Note]:
    return KvRecords(bus, CATALOGUE, Note, key_of=lambda note: note.key, **options)


async def test_a_record_is_written_read_and_overwritten(bus: Bus) -> None:
    records = notes(bus)
    assert await records.load("p.one") is None
    first = await records.save("p.one", ONE, 0)
    assert await records.load("p.one") == first == StoredRecord(ONE, first.revision)
    second = await records.save("p.one", OTHER, first.revision)
    assert await records.load("p.one") == second
    assert second.revision > first.revision


async def test_a_write_over_another_revision_than_the_last_is_a_conflict(bus: Bus) -> None:
    records = notes(bus)
    first = await records.save("p.one", ONE, 0)
    await records.save("p.one", OTHER, first.revision)
    with pytest.raises(WriteConflictError) as conflict:
        await records.save("p.one", ONE, first.revision)
    with pytest.raises(WriteConflictError):
        await records.save("p.one", ONE, 0)
    with pytest.raises(WriteConflictError):
        await records.delete("p.one", first.revision)
    assert conflict.value.code is ErrorCode.CONFLICT
    assert (stored := await records.load("p.one")) is not None
    assert stored.record == OTHER


async def test_a_deleted_record_is_absent_and_can_be_written_anew(bus: Bus) -> None:
    records = notes(bus)
    first = await records.save("p.one", ONE, 0)
    assert await records.deleted_at("p.one") is None
    await records.delete("p.one", first.revision)
    assert await records.load("p.one") is None
    assert await records.deleted_at("p.one") is not None
    [version] = await records.load_versions(["p.one"])
    assert version.record is None
    assert version.revision > first.revision
    assert (await records.save("p.one", OTHER, 0)).revision > version.revision


async def test_a_purged_record_leaves_no_history(bus: Bus) -> None:
    records, bucket = notes(bus), await bus.jetstream.key_value(CATALOGUE.name)
    await records.save("p.one", ONE, (await records.save("p.one", ONE, 0)).revision)
    await records.purge("p.one")
    await records.purge("p.never")
    assert await records.load("p.one") is None
    assert (await bus.jetstream.stream_info(f"KV_{CATALOGUE.name}")).state.messages == 2, "one marker for each purge"
    assert (await records.save("p.one", OTHER, 0)).record == OTHER
    assert (await bucket.get("p.one")).value == OTHER.model_dump_json().encode()


async def test_many_writes_report_their_conflicts_one_by_one(bus: Bus) -> None:
    records = notes(bus)
    taken = await records.save("p.one", ONE, 0)
    two = Note(key="p.two")
    conflict, written = await records.save_many([RecordWrite("p.one", OTHER, 0), RecordWrite("p.two", two, 0)])
    assert conflict is None
    assert await records.load_versions(["p.two", "p.none", "p.one"]) == [
        RecordVersion(two, written or 0),
        RecordVersion(None, 0),
        RecordVersion(ONE, taken.revision),
    ]


async def test_records_are_iterated_by_pattern_without_the_deleted_ones(bus: Bus) -> None:
    records = notes(bus)
    kept = await records.save("p.one", ONE, 0)
    gone = await records.save("p.gone", Note(key="p.gone"), 0)
    await records.delete("p.gone", gone.revision)
    await records.save("q.one", Note(key="q.one"), 0)
    assert [found async for found in records.iterate("p.*")] == [("p.one", kept)]
    assert len([found async for found in records.iterate()]) == 2


async def test_all_records_are_loaded_without_a_consumer(bus: Bus) -> None:
    records = notes(bus)
    assert await records.load_all() == {}
    gone = await records.save("p.gone", Note(key="p.gone"), 0)
    await records.delete("p.gone", gone.revision)
    await records.save("q.one", Note(key="q.one", text="old"), 0)
    await records.save("p.one", ONE, 0)
    await records.save("q.one", Note(key="q.one", text="new"), (await records.load_versions(["q.one"]))[0].revision)
    await bus.jetstream.publish(f"$KV.{CATALOGUE.name}.p.damaged", b"{")
    new = Note(key="q.one", text="new")
    assert await records.load_all() == {"p.one": ONE, "q.one": new}
    assert await records.load_all("q.*") == {"q.one": new}


@pytest.mark.parametrize("value", [b"", b"{", b'{"key": "p.other", "text": "secret"}'])
async def test_a_damaged_value_is_logged_without_its_content_and_can_be_replaced(bus: Bus, value: bytes) -> None:
    records, bucket = notes(bus), await bus.jetstream.key_value(CATALOGUE.name)
    await bucket.put("p.one", value)
    with capture_logs() as logs:
        assert await records.load("p.one") is None
        assert [found async for found in records.iterate()] == []
    assert len(logs) == 2
    assert "secret" not in str(logs)
    assert (await records.save("p.one", ONE, 0)).record == ONE


async def test_a_damaged_value_is_an_error_where_it_must_not_be_ignored(bus: Bus) -> None:
    await (await bus.jetstream.key_value(CATALOGUE.name)).put("p.one", b"{")
    with pytest.raises(RequestError) as raised:
        await notes(bus, damage_is_error=True).load("p.one")
    assert raised.value.code is ErrorCode.INTERNAL


async def test_default_values_can_be_left_out(bus: Bus) -> None:
    await notes(bus, exclude_defaults=True).save("p.one", Note(key="p.one"), 0)
    entry = await (await bus.jetstream.key_value(CATALOGUE.name)).get("p.one")
    assert entry.value == b'{"key":"p.one"}'


async def test_the_last_revision_of_a_pattern_counts_deletions(bus: Bus) -> None:
    records = KvRecords(bus, CATALOGUE, Note)
    assert await records.find_last_revision("home.*") == 0
    one = await records.save("home.one", ONE, 0)
    other = await records.save("other.one", ONE, 0)
    assert await records.find_last_revision("home.*") == one.revision
    assert await records.delete_many({"home.one": one.revision, "other.one": other.revision - 1}) == [True, False]
    assert await records.find_last_revision("home.*") > other.revision
    assert await records.find_last_revision("other.*") == other.revision
