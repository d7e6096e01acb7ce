"""Run history in the stream `SKILLBUS_RUNS`, which keeps the last record of each run and bounds itself."""

from typing import Final

from nats.js.api import Header
from nats.js.errors import BadRequestError, NotFoundError

from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.common.bus.jetstream_batch import read_messages
from skillbus.contracts.resources import RUN_HISTORY, make_run_subject
from skillbus.contracts.sandbox.run_history import RunRecord
from skillbus.sandbox.domain.errors import RunKnown
from skillbus.sandbox.domain.run.history import HistoryPortion

_PORTION: Final = 256
"""Stream positions that are read together. About half are empty, because each run is written twice."""
_ANOTHER_WAS_WRITTEN: Final = 10071
"""`err_code` of a publish with a wrong expected last sequence. Source: nats-server, `server/errors.json`."""


class StreamHistory:
    """`RunHistory` on JetStream."""

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._jetstream = bus.jetstream
        self._api = bus.jetstream_api

    async def record_start(self, record: RunRecord) -> None:
        subject = make_run_subject(record.run_id)
        first = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: "0"}
        async with jetstream_call(f"record the start of run {record.run_id}"):
            try:
                await self._jetstream.publish(subject, encode(record), stream=RUN_HISTORY.name, headers=first)
            except BadRequestError as error:
                if error.err_code != _ANOTHER_WAS_WRITTEN:
                    raise
                raise RunKnown(f"a run {record.run_id} exists: choose another random id") from error

    async def record_end(self, record: RunRecord) -> None:
        async with jetstream_call(f"record the end of run {record.run_id}"):
            await self._jetstream.publish(make_run_subject(record.run_id), encode(record), stream=RUN_HISTORY.name)

    async def get_record(self, run_id: str) -> RunRecord | None:
        async with jetstream_call(f"look up run {run_id}"):
            try:
                message = await self._jetstream.get_last_msg(RUN_HISTORY.name, make_run_subject(run_id))
            except NotFoundError:
                return None
        return decode(RunRecord, message.data or b"")

    async def read_portion(self, before: int | None) -> HistoryPortion:
        async with jetstream_call("read the history of runs"):
            state = (await self._jetstream.stream_info(RUN_HISTORY.name)).state
            end = state.last_seq + 1 if before is None else min(before, state.last_seq + 1)
            first = max(state.first_seq, 1)  # that of an empty stream is 0
            begin = max(first, end - _PORTION)
            found = await read_messages(self._client, RUN_HISTORY.name, range(end - 1, begin - 1, -1), self._api)
        records = [(stored.sequence, decode(RunRecord, stored.data)) for stored in found if stored is not None]
        return HistoryPortion(records, begin if begin > first else None)
