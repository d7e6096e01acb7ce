"""Records of devices and commands in key-value buckets of JetStream."""

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.contracts.resources import COMMAND_LIBRARY, HOMES
from skillbus.indexer.adapters.kv_listed_records import KvListedRecords, ListedKind
from skillbus.indexer.adapters.kv_record_store import KvRecordStore, hash_for_key
from skillbus.indexer.domain.home.command import CommandRecord, ListedCommand, list_command
from skillbus.indexer.domain.home.device import DeviceRecord, ListedDevice, list_device, split_device_key_id
from skillbus.indexer.domain.index.ports import Key


def open_devices(bus: Bus) -> KvRecordStore[DeviceRecord]:
    """Return the store of devices."""
    return KvRecordStore(bus, HOMES, _open_device_records(bus), _make_device_key, lambda it: it.key, "{}.>")


def open_listed_devices(bus: Bus) -> KvListedRecords[ListedDevice]:
    """Return the list of devices, ordered by home and id."""
    records = _open_device_records(bus)

    def parse(key: str, value: bytes) -> ListedDevice | None:
        record = records.parse_value(key, value)
        return list_device(record) if record else None

    return KvListedRecords(bus, HOMES, ListedKind(parse, _make_device_key, lambda it: (it.home, it.id)))


class KvHomeRevisions:
    """Revisions of homes: the last sequence of a home's keys in the stream of the bucket."""

    def __init__(self, bus: Bus) -> None:
        self._records = _open_device_records(bus)

    async def find_revision(self, project: str, home: str) -> int:
        return await self._records.find_last_revision(f"{project}.{hash_for_key(home)}.*")


def open_commands(bus: Bus) -> KvRecordStore[CommandRecord]:
    """Return the store of commands."""
    records = _open_command_records(bus)
    return KvRecordStore(bus, COMMAND_LIBRARY, records, _make_command_key, lambda it: it.key, "{}.*")


def open_listed_commands(bus: Bus) -> KvListedRecords[ListedCommand]:
    """Return the list of commands, ordered by id."""
    records = _open_command_records(bus)

    def parse(key: str, value: bytes) -> ListedCommand | None:
        record = records.parse_value(key, value)
        return list_command(record) if record else None

    return KvListedRecords(bus, COMMAND_LIBRARY, ListedKind(parse, _make_command_key, lambda it: it.id))


def _open_device_records(bus: Bus) -> KvRecords[DeviceRecord]:
    return KvRecords(bus, HOMES, DeviceRecord, key_of=lambda it: _make_device_key(it.key), exclude_defaults=True)


def _open_command_records(bus: Bus) -> KvRecords[CommandRecord]:
    kind = CommandRecord
    return KvRecords(bus, COMMAND_LIBRARY, kind, key_of=lambda it: _make_command_key(it.key), exclude_defaults=True)


def _make_device_key(key: Key) -> str:
    home, device_id = split_device_key_id(key[1])
    return f"{key[0]}.{hash_for_key(home)}.{hash_for_key(device_id)}"


def _make_command_key(key: Key) -> str:
    return f"{key[0]}.{hash_for_key(key[1])}"
