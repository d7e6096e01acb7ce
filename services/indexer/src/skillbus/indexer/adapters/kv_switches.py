"""The state of switches in a key-value bucket of JetStream, by alias."""

import structlog
from nats.js.errors import KeyDeletedError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue
from pydantic import ValidationError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import SWITCHES
from skillbus.indexer.domain.errors import SwitchConflictError
from skillbus.indexer.domain.index.switch_record import StoredSwitch, SwitchRecord

log = structlog.get_logger(__name__)


class KvSwitches:
    """Revisions are those of the bucket, which is read from its leader: a direct get could answer with an old value."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def get(self, alias: str) -> StoredSwitch | None:
        async with jetstream_call(f"read the switch of {alias}"):
            try:
                entry = await self._bucket.get(alias)
            except (KeyNotFoundError, KeyDeletedError):
                return None
        try:
            record = SwitchRecord.model_validate_json(entry.value or b"")
        except ValidationError as error:
            log.error("switch_record_damaged", alias=alias, errors=error.error_count())  # noqa: TRY400 - holds the value
            message = f"the entry {alias!r} of the bucket {SWITCHES.name!r} is not what an indexer writes: delete it"
            raise RequestError(ErrorCode.INTERNAL, message) from error
        return StoredSwitch(record, entry.revision or 0)

    async def put(self, alias: str, record: SwitchRecord, revision: int) -> StoredSwitch:
        value = record.model_dump_json().encode()
        async with jetstream_call(f"write the switch of {alias}"):
            try:
                if revision == 0:
                    return StoredSwitch(record, await self._bucket.create(alias, value))
                return StoredSwitch(record, await self._bucket.update(alias, value, last=revision))
            except KeyWrongLastSequenceError as error:
                raise SwitchConflictError(alias) from error


async def open_switches(bus: Bus) -> KvSwitches:
    """The state of switches on a bus that was provisioned."""
    async with jetstream_call("open the bucket of switches"):
        return KvSwitches(await bus.jetstream.key_value(SWITCHES.name))
