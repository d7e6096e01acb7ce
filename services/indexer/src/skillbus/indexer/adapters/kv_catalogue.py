"""The catalogue in a key-value bucket of JetStream."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue
from pydantic import ValidationError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import iterate_last_values, jetstream_call
from skillbus.common.bus.jetstream_batch import read_values
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.domain.catalogue.ports import Stored
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.errors import RecordConflictError

_STREAM: Final = f"KV_{CATALOGUE.name}"
_PREFIX: Final = f"$KV.{CATALOGUE.name}."
_OPERATION: Final = "KV-Operation"
"""Header of an entry that says that its key was deleted or purged."""

log = structlog.get_logger(__name__)


class KvCatalogue:
    """Records under `<project>.skill.<name>`; revisions are those of the bucket.

    What cannot be read as the record of its key is logged and counts as absent.
    """

    def __init__(self, client: Client, jetstream: JetStreamContext, bucket: KeyValue) -> None:
        self._client = client
        self._jetstream = jetstream
        self._bucket = bucket

    async def get(self, project: str, name: str) -> Stored | None:
        return (await self.get_many([(project, name)])).get((project, name))

    async def get_many(self, names: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Stored]:
        keys = [_key(*name) for name in names]
        async with jetstream_call(f"read the records of {len(keys)} skills"):
            values = await read_values(self._client, CATALOGUE.name, keys)
        return {
            name: Stored(record, value.revision)
            for name, key, value in zip(names, keys, values, strict=True)
            if value and value.data is not None and (record := skill_record_of(key, value.data))
        }

    async def put(self, record: SkillRecord, revision: int) -> Stored:
        key, value = _key(record.project, record.name), record.model_dump_json().encode()
        async with jetstream_call(f"write the record of {record.name}"):
            try:
                if revision == 0:
                    return Stored(record, await self._create(key, value))
                return Stored(record, await self._bucket.update(key, value, last=revision))
            except KeyWrongLastSequenceError as error:
                raise RecordConflictError(record.project, record.name) from error

    async def _create(self, key: str, value: bytes) -> int:
        """Raises KeyWrongLastSequenceError when there is a record already; a damaged one is none, and replaced."""
        try:
            return await self._bucket.create(key, value)
        except KeyWrongLastSequenceError:
            entry = await self._bucket.get(key)
            if skill_record_of(entry.key, entry.value) is not None:
                raise
        return await self._bucket.update(key, value, last=entry.revision)

    async def delete(self, project: str, name: str, revision: int) -> None:
        async with jetstream_call(f"remove the record of {name}"):
            try:
                await self._bucket.delete(_key(project, name), last=revision)
            except KeyWrongLastSequenceError as error:
                raise RecordConflictError(project, name) from error

    async def removed_at(self, project: str, name: str) -> datetime | None:
        async with jetstream_call(f"read when {name} was removed"):
            try:
                message = await self._jetstream.get_last_msg(_STREAM, f"{_PREFIX}{_key(project, name)}")
            except NotFoundError:
                return None
        return message.time if (message.headers or {}).get(_OPERATION) == "DEL" else None

    async def all(self, project: str | None = None) -> Sequence[SkillRecord]:
        records = []
        async with jetstream_call("read the catalogue"):
            async for message in iterate_last_values(self._jetstream, _STREAM, f"{_PREFIX}{project or '*'}.skill.*"):
                if _OPERATION not in (message.headers or {}):
                    record = skill_record_of(message.subject.removeprefix(_PREFIX), message.data)
                    records += [record] if record is not None else []
        return sorted(records, key=lambda record: (record.project, record.name))


def skill_record_of(key: str, value: bytes | None) -> SkillRecord | None:
    """An entry's record; None for what no indexer wrote: one such must not take all others along."""
    try:
        record = SkillRecord.model_validate_json(value or b"")
    except ValidationError as error:
        log.error("catalogue_record_damaged", key=key, errors=error.error_count())  # noqa: TRY400 - holds the value
        return None
    if key != _key(record.project, record.name):
        log.error("catalogue_record_damaged", key=key, holds=_key(record.project, record.name))
        return None
    return record


def _key(project: str, name: str) -> str:
    return f"{project}.skill.{name}"


async def open_catalogue(bus: Bus) -> KvCatalogue:
    """The catalogue on a bus that was provisioned."""
    async with jetstream_call("open the catalogue"):
        return KvCatalogue(bus.client, bus.jetstream, await bus.jetstream.key_value(CATALOGUE.name))
