"""List of all records of a bucket in memory, updated from the bucket before each answer."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic

import structlog
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.contracts.resources import KeyValueBucket
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.record.ports import ListedT

_OPERATION: Final = "KV-Operation"
_FETCH: Final = 128
"""Records read between two turns of the event loop: some ten milliseconds."""
_FETCH_TIMEOUT_S: Final = 1.0
_CONSUMER_INACTIVE_S: Final = 30.0
_TIMEOUT_S: Final = 60.0
"""Limit of one update. The records read so far are kept, and the next call continues."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ListedKind(Generic[ListedT]):
    """Functions for the records of a bucket. The first token of their keys is the project."""

    parse: Callable[[str, bytes], ListedT | None]
    """Makes the listed form of a key and its value; None for a value to leave out."""
    make_key: Callable[[Key], str]
    """Makes the key of a record by project and id."""
    get_order: Callable[[ListedT], Any]
    """Returns what the list of a project is ordered by."""


class KvListedRecords(Generic[ListedT]):
    """Reads each record once, in the order of the stream, up to the last message that the leader has.

    Deletions are messages too, and single messages of a bucket cannot be removed. A bucket that was created again,
    emptied or restored is read from the start. An operator who purges a single subject must restart the indexers.
    """

    def __init__(self, bus: Bus, bucket: KeyValueBucket, kind: ListedKind[ListedT]) -> None:
        self._jetstream = bus.jetstream
        self._bucket = bucket
        self._kind = kind
        self._prefix = f"$KV.{bucket.name}."
        self._updating = asyncio.Lock()
        self._created: datetime | None = None
        self._seen = 0
        """Sequence of the last message that was read."""
        self._projects = dict[str, _ListedProject[ListedT]]()

    async def list_project(self, project: str) -> Sequence[ListedT]:
        await self._update()
        if (listed := self._projects.get(project)) is None:
            return ()
        if listed.ordered is None:
            listed.ordered = sorted(listed.by_key.values(), key=self._kind.get_order)
        return listed.ordered

    async def list_all(self, project: str | None = None) -> Sequence[ListedT]:
        await self._update()
        wanted = [listed for name, listed in self._projects.items() if project in {None, name}]
        return [one for listed in wanted for one in listed.by_key.values()]

    async def find(self, keys: Sequence[Key]) -> Mapping[Key, ListedT]:
        await self._update()
        found = dict[Key, ListedT]()
        for key in keys:
            listed = self._projects.get(key[0])
            if listed is not None and (one := listed.by_key.get(self._kind.make_key(key))) is not None:
                found[key] = one
        return found

    async def _update(self) -> None:
        async with self._updating, jetstream_call(f"read the bucket {self._bucket.name}", _TIMEOUT_S):
            stream = await self._jetstream.stream_info(self._bucket.stream)
            last, first = stream.state.last_seq, stream.state.first_seq
            if self._created != stream.created or last < self._seen or first > self._seen:  # another bucket
                self._created, self._seen, self._projects = stream.created, 0, {}
            while self._seen < last:
                await self._read_until(last)

    async def _read_until(self, last: int) -> None:
        """Read up to the sequence `last`, or up to a message that was lost in transit."""
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE if self._seen else DeliverPolicy.LAST_PER_SUBJECT,
            opt_start_seq=self._seen + 1 if self._seen else None,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_CONSUMER_INACTIVE_S,
        )
        consumer = await self._jetstream.pull_subscribe(f"{self._prefix}>", stream=self._bucket.stream, config=config)
        try:
            await self._consume(consumer, last)
        finally:
            await consumer.unsubscribe()

    async def _consume(self, consumer: JetStreamContext.PullSubscription, last: int) -> None:
        count = 0
        while self._seen < last:
            pending = (await consumer.consumer_info()).num_pending or 0
            if not pending:
                try:
                    await self._jetstream.get_msg(self._bucket.stream, last)
                except NotFoundError:
                    self._seen = last
                    return
            # An overwritten message is no longer pending, and a copy may be behind its leader.
            with suppress(TimeoutError):
                for message in await consumer.fetch(min(max(pending, 1), _FETCH), timeout=_FETCH_TIMEOUT_S):
                    count += 1
                    if message.metadata.sequence.consumer != count:
                        log.warning("bucket_read_again", bucket=self._bucket.name, seen=self._seen)
                        return
                    self._apply(message)
                    self._seen = message.metadata.sequence.stream

    def _apply(self, message: Msg) -> None:
        key = message.subject.removeprefix(self._prefix)
        project = self._projects.setdefault(key.partition(".")[0], _ListedProject())
        project.ordered = None
        listed = None if _OPERATION in (message.headers or {}) else self._kind.parse(key, message.data)
        if listed is None:
            project.by_key.pop(key, None)
        else:
            project.by_key[key] = listed


@dataclass(slots=True)
class _ListedProject(Generic[ListedT]):
    """Records of a project."""

    by_key: dict[str, ListedT] = field(default_factory=dict)
    """Records by their key in the bucket."""
    ordered: Sequence[ListedT] | None = None
    """Records in their order; None after a change."""
