"""List of all tools in memory, updated from the bucket of the catalogue before each answer."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.adapters.kv_catalogue import make_tool_key, open_skill_records, open_tool_records
from skillbus.indexer.domain.catalogue.listing import skill_to_catalogue_tool
from skillbus.indexer.domain.catalogue.tool import ListedTool, list_tool

_STREAM: Final = f"KV_{CATALOGUE.name}"
_PREFIX: Final = f"$KV.{CATALOGUE.name}."
_OPERATION: Final = "KV-Operation"
_FETCH: Final = 128
"""Records read between two turns of the event loop: some ten milliseconds."""
_FETCH_TIMEOUT_S: Final = 1.0
_CONSUMER_INACTIVE_S: Final = 30.0
_TIMEOUT_S: Final = 60.0
"""Limit of one update. The records read so far are kept, and the next call continues."""

log = structlog.get_logger(__name__)


class KvListedTools:
    """Reads each record once, in the order of the stream, up to the last message that the leader has.

    Deletions are messages too, and single messages of a bucket cannot be removed. A bucket that was created again,
    emptied or restored is read from the start. An operator who purges a single subject must restart the indexers.
    """

    def __init__(self, bus: Bus) -> None:
        self._jetstream = bus.jetstream
        self._skills, self._tools = open_skill_records(bus), open_tool_records(bus)
        self._updating = asyncio.Lock()
        self._created: datetime | None = None
        self._seen = 0
        """Sequence of the last message that was read."""
        self._projects = dict[str, _ProjectTools]()

    async def list_tools(self, project: str) -> Sequence[ListedTool]:
        await self._update()
        if (tools := self._projects.get(project)) is None:
            return ()
        if tools.ordered is None:
            tools.ordered = sorted(tools.by_key.values(), key=lambda tool: tool.id)
        return tools.ordered

    async def list_all_tools(self, project: str | None = None) -> Sequence[ListedTool]:
        await self._update()
        wanted = [tools for name, tools in self._projects.items() if project in {None, name}]
        return [tool for tools in wanted for tool in tools.by_key.values()]

    async def find_tools(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, ListedTool]:
        await self._update()
        tools = self._projects[project].by_key if project in self._projects else {}
        return {tool_id: found for tool_id in tool_ids if (found := tools.get(make_tool_key(project, tool_id)))}

    async def _update(self) -> None:
        async with self._updating, jetstream_call("read the catalogue of tools", _TIMEOUT_S):
            stream = await self._jetstream.stream_info(_STREAM)
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
        consumer = await self._jetstream.pull_subscribe(f"{_PREFIX}>", stream=_STREAM, config=config)
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
                    await self._jetstream.get_msg(_STREAM, last)
                except NotFoundError:
                    self._seen = last
                    return
            # An overwritten message is no longer pending, and a copy may be behind its leader.
            with suppress(TimeoutError):
                for message in await consumer.fetch(min(max(pending, 1), _FETCH), timeout=_FETCH_TIMEOUT_S):
                    count += 1
                    if message.metadata.sequence.consumer != count:
                        log.warning("catalogue_read_again", seen=self._seen)
                        return
                    self._apply(message)
                    self._seen = message.metadata.sequence.stream

    def _apply(self, message: Msg) -> None:
        key = message.subject.removeprefix(_PREFIX)
        project = self._projects.setdefault(key.partition(".")[0], _ProjectTools())
        project.ordered = None
        tool = None if _OPERATION in (message.headers or {}) else self._parse(key, message.data)
        if tool is None:
            project.by_key.pop(key, None)
        else:
            project.by_key[key] = tool

    def _parse(self, key: str, value: bytes) -> ListedTool | None:
        """Parse a value of the bucket. Return None if it is neither a tool nor a skill."""
        kind = key.partition(".")[2].partition(".")[0]
        if kind == "tool":
            tool = self._tools.parse_value(key, value)
            return list_tool(tool.to_catalogue_tool()) if tool else None
        if kind == "skill":
            skill = self._skills.parse_value(key, value)
            return list_tool(skill_to_catalogue_tool(skill), indexed=skill.skill.indexed) if skill else None
        return None


@dataclass(slots=True)
class _ProjectTools:
    """Tools of a project."""

    by_key: dict[str, ListedTool] = field(default_factory=dict)
    """Tools by their key in the bucket."""
    ordered: Sequence[ListedTool] | None = None
    """Tools ordered by id; None after a change."""
