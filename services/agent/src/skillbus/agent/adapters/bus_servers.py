"""Registered MCP servers: a key-value bucket under `<project>.<name>`, a feed of its changes, and events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.agent.domain.servers.registration import RegisteredServer, ServerKey
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.records import StoredRecord
from skillbus.contracts.agent.mcp_servers import McpServerSeen
from skillbus.contracts.endpoint import Event
from skillbus.contracts.resources import MCP_SERVERS

_PREFIX: Final = f"$KV.{MCP_SERVERS.name}."
_QUEUE_SIZE: Final = 1_000


class KvServers:
    """Implements `ServerStore`."""

    def __init__(self, bus: Bus) -> None:
        self._records = KvRecords(bus, MCP_SERVERS, RegisteredServer, key_of=lambda server: _key_name(server.key))

    async def load_server(self, key: ServerKey) -> StoredRecord[RegisteredServer] | None:
        return await self._records.load(_key_name(key))

    async def save_server(self, server: RegisteredServer, revision: int) -> StoredRecord[RegisteredServer]:
        return await self._records.save(_key_name(server.key), server, revision)

    async def delete_server(self, key: ServerKey) -> None:
        await self._records.purge(_key_name(key))  # with its history, which holds values of headers

    async def list_servers(self) -> tuple[RegisteredServer, ...]:
        return tuple((await self._records.load_all()).values())


class KvServerChanges:
    """Implements `ServerChangeFeed` with a subscription to the subjects of the bucket.

    Writes are not received while the connection is down, so each reconnection is reported as "look at everything".
    """

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._reconnects = bus.client.stats["reconnects"]
        self._received: asyncio.Queue[ServerKey | None] = asyncio.Queue(_QUEUE_SIZE)

    async def next(self, within_s: float) -> ServerKey | None:
        if self._client.stats["reconnects"] != self._reconnects:
            self._reconnects = self._client.stats["reconnects"]
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._received.get()
        return None

    async def on_write(self, message: Msg) -> None:
        project, _, name = message.subject.removeprefix(_PREFIX).partition(".")
        if self._received.full():
            while not self._received.empty():
                self._received.get_nowait()
            self._received.put_nowait(None)  # too many to look at one by one
        else:
            self._received.put_nowait(ServerKey(project, name))


@asynccontextmanager
async def open_server_changes(bus: Bus) -> AsyncGenerator[KvServerChanges]:
    changes = KvServerChanges(bus)
    subscription = await bus.client.subscribe(f"{_PREFIX}>", cb=changes.on_write)
    try:
        yield changes
    finally:
        with suppress(NatsError):  # a connection that is closed or draining has dropped it already
            await subscription.unsubscribe()


def _key_name(key: ServerKey) -> str:
    return f"{key.project}.{key.name}"


async def announce_server(bus: Bus, event: Event[McpServerSeen], fact: McpServerSeen) -> None:
    """Implement `AnnounceServer`."""
    message_id = f"{event.entity}:{event.fact}:{uuid4().hex}"  # an equal event later is a new one
    await publish_event(bus, event, fact, identity=fact.name, message_id=message_id, project=fact.project)
