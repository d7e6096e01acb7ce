"""What is kept in memory of the records of tools and skills, brought up to the bucket whenever it is asked."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamInfo
from nats.js.errors import NotFoundError

from skillbus.common.bus.jetstream import jetstream_call
from skillbus.contracts.indexer.tools import ToolState
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.adapters.kv_catalogue import skill_record_of
from skillbus.indexer.adapters.kv_tools import tool_key, tool_record_of
from skillbus.indexer.domain.catalogue.listed_tool import ListedTool, listed_of
from skillbus.indexer.domain.catalogue.listing import tool_of_skill

_STREAM: Final = f"KV_{CATALOGUE.name}"
_PREFIX: Final = f"$KV.{CATALOGUE.name}."
_OPERATION: Final = "KV-Operation"
_FETCH: Final = 128
"""Records read between two turns of the event loop, some ten milliseconds."""
_FETCH_TIMEOUT_S: Final = 1.0
_FORGOTTEN_AFTER_S: Final = 30.0
_TIMEOUT_S: Final = 60.0
"""Of reading what is new; what was read until then is kept, and the next call goes on from there."""

log = structlog.get_logger(__name__)


class KvListedTools:
    """Reads each record once, in the order of the stream: from where it was to the last that the leader has taken.

    Deletions are entries like others there, and single messages of a bucket cannot be removed. One that was made again,
    emptied or set back is read anew; whoever purges the stream of one subject has to restart indexers.
    """

    def __init__(self, jetstream: JetStreamContext) -> None:
        self._jetstream = jetstream
        self._reading = asyncio.Lock()
        self._created: datetime | None = None
        self._seen = 0
        """The last message of the stream that was read."""
        self._projects = dict[str, _Project]()

    async def in_order(self, project: str) -> Sequence[ListedTool]:
        await self._catch_up()
        return self._projects[project].in_order() if project in self._projects else ()

    async def inactive(self, project: str | None) -> int:
        await self._catch_up()
        projects = [of for name, of in self._projects.items() if project in {None, name}]
        return sum(tool.state is not ToolState.ACTIVE for of in projects for tool in of.tools.values())

    async def known(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, ListedTool]:
        await self._catch_up()
        tools = self._projects[project].tools if project in self._projects else {}
        return {id_: found for id_ in tool_ids if (found := tools.get(tool_key(project, id_)))}

    async def _catch_up(self) -> None:
        async with self._reading, jetstream_call("read the catalogue of tools", _TIMEOUT_S):
            stream = await self._jetstream.stream_info(_STREAM)
            if self._is_another(stream):
                self._created, self._seen, self._projects = stream.created, 0, {}
            while self._seen < stream.state.last_seq:
                await self._read_on(stream.state.last_seq)

    def _is_another(self, stream: StreamInfo) -> bool:
        state = stream.state
        return self._created != stream.created or state.last_seq < self._seen or state.first_seq > self._seen

    async def _read_on(self, last: int) -> None:
        """Read up to `last`, or up to a message that was lost on the way."""
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE if self._seen else DeliverPolicy.LAST_PER_SUBJECT,
            opt_start_seq=self._seen + 1 if self._seen else None,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_FORGOTTEN_AFTER_S,
        )
        consumer = await self._jetstream.pull_subscribe(f"{_PREFIX}>", stream=_STREAM, config=config)
        try:
            await self._read_from(consumer, last)
        finally:
            await consumer.unsubscribe()

    async def _read_from(self, consumer: JetStreamContext.PullSubscription, last: int) -> None:
        read = 0
        while self._seen < last:
            waiting = (await consumer.consumer_info()).num_pending or 0
            if not waiting and await self._is_gone(last):
                self._seen = last
                return
            # What is written anew meanwhile may be pending no longer, and a copy may be behind its leader.
            with suppress(TimeoutError):
                for message in await consumer.fetch(min(max(waiting, 1), _FETCH), timeout=_FETCH_TIMEOUT_S):
                    read += 1
                    if message.metadata.sequence.consumer != read:
                        log.warning("catalogue_read_again", seen=self._seen)
                        return
                    self._take(message)
                    self._seen = message.metadata.sequence.stream

    async def _is_gone(self, sequence: int) -> bool:
        try:
            await self._jetstream.get_msg(_STREAM, sequence)
        except NotFoundError:
            return True
        return False

    def _take(self, message: Msg) -> None:
        key = message.subject.removeprefix(_PREFIX)
        project = self._projects.setdefault(key.partition(".")[0], _Project())
        listed = None if _OPERATION in (message.headers or {}) else _listed(key, message.data)
        project.put(key, listed)


class _Project:
    """The tools of a project by their keys in the bucket."""

    def __init__(self) -> None:
        self.tools = dict[str, ListedTool]()
        self._in_order: Sequence[ListedTool] | None = None

    def put(self, key: str, tool: ListedTool | None) -> None:
        """What is there now under a key."""
        self._in_order = None
        if tool is None:
            self.tools.pop(key, None)
        else:
            self.tools[key] = tool

    def in_order(self) -> Sequence[ListedTool]:
        """By id; sorted once after each change."""
        if self._in_order is None:
            self._in_order = sorted(self.tools.values(), key=lambda tool: tool.id)
        return self._in_order


def _listed(key: str, value: bytes) -> ListedTool | None:
    """None of what is no record of a tool or a skill."""
    kind = key.partition(".")[2].partition(".")[0]
    if kind == "tool":
        tool = tool_record_of(key, value)
        return listed_of(tool.shown()) if tool else None
    if kind == "skill":
        skill = skill_record_of(key, value)
        return listed_of(tool_of_skill(skill)) if skill else None
    return None
