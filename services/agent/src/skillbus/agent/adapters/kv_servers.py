"""Registered servers in a key-value bucket of JetStream, under `<project>.<name>`, and what is written to it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyDeletedError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue
from pydantic import ValidationError

from skillbus.agent.domain.errors import RegistryTakenError
from skillbus.agent.domain.registered import RegisteredServer, ServerKey, StoredServer
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream_call import jetstream_call
from skillbus.common.bus.last_values import last_values
from skillbus.contracts.resources import MCP_SERVERS

_STREAM: Final = f"KV_{MCP_SERVERS.name}"
_PREFIX: Final = f"$KV.{MCP_SERVERS.name}."
_OPERATION: Final = "KV-Operation"
_HEARD_MAX: Final = 1_000

log = structlog.get_logger(__name__)


class KvServers:
    """Implements `ServerStore`. What cannot be read as a server is logged, without its value, and counts as absent."""

    def __init__(self, jetstream: JetStreamContext, bucket: KeyValue) -> None:
        self._jetstream = jetstream
        self._bucket = bucket

    async def get(self, key: ServerKey) -> StoredServer | None:
        async with jetstream_call(f"read the MCP server {key.name}"):
            try:
                entry = await self._bucket.get(_name(key))
            except (KeyNotFoundError, KeyDeletedError):
                return None
        server = _server_of(entry.key, entry.value)
        return None if server is None else StoredServer(server, entry.revision or 0)

    async def put(self, server: RegisteredServer, revision: int) -> StoredServer:
        name, value = _name(server.key), server.model_dump_json().encode()
        async with jetstream_call(f"write the MCP server {server.key.name}"):
            try:
                if revision == 0:
                    return StoredServer(server, await self._bucket.create(name, value))
                return StoredServer(server, await self._bucket.update(name, value, last=revision))
            except KeyWrongLastSequenceError as error:
                raise RegistryTakenError(f"the server {server.key.name} was changed meanwhile: try again") from error

    async def delete(self, key: ServerKey) -> None:
        async with jetstream_call(f"remove the MCP server {key.name}"):
            await self._bucket.purge(_name(key))  # with its history: there are values of headers in it

    async def all(self) -> tuple[RegisteredServer, ...]:
        found = []
        async with jetstream_call("read the MCP servers"):
            async for message in last_values(self._jetstream, _STREAM, f"{_PREFIX}>"):
                if _OPERATION not in (message.headers or {}):
                    server = _server_of(message.subject.removeprefix(_PREFIX), message.data)
                    found += [server] if server is not None else []
        return tuple(found)


class ServerChanges:
    """Implements `Changes` by what is published to the bucket's subjects.

    A write to a key-value bucket is a publish that any subscription hears; what is written while the connection is
    away is not heard, so that each reconnection says that all should be looked at.
    """

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._reconnects = bus.client.stats["reconnects"]
        self._heard: asyncio.Queue[ServerKey | None] = asyncio.Queue(_HEARD_MAX)

    async def next(self, within_s: float) -> ServerKey | None:
        if self._client.stats["reconnects"] != self._reconnects:
            self._reconnects = self._client.stats["reconnects"]
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._heard.get()
        return None

    async def hear(self, message: Msg) -> None:
        project, _, name = message.subject.removeprefix(_PREFIX).partition(".")
        if self._heard.full():
            while not self._heard.empty():
                self._heard.get_nowait()
            self._heard.put_nowait(None)  # more than can be looked at one by one
        else:
            self._heard.put_nowait(ServerKey(project, name))


@asynccontextmanager
async def open_changes(bus: Bus) -> AsyncGenerator[ServerChanges]:
    """The feed, for as long as it is open."""
    changes = ServerChanges(bus)
    subscription = await bus.client.subscribe(f"{_PREFIX}>", cb=changes.hear)
    try:
        yield changes
    finally:
        with suppress(NatsError):  # a connection that is closed or drains has forgotten it
            await subscription.unsubscribe()


async def open_servers_bucket(bus: Bus) -> KvServers:
    """The registered servers on a bus that was provisioned."""
    async with jetstream_call("open the bucket of MCP servers"):
        return KvServers(bus.jetstream, await bus.jetstream.key_value(MCP_SERVERS.name))


def _server_of(key: str, value: bytes | None) -> RegisteredServer | None:
    try:
        server = RegisteredServer.model_validate_json(value or b"")
    except ValidationError as error:
        log.error("mcp_server_record_damaged", key=key, errors=error.error_count())  # noqa: TRY400 - holds the value
        return None
    if key != _name(server.key):
        log.error("mcp_server_record_damaged", key=key, holds=_name(server.key))
        return None
    return server


def _name(key: ServerKey) -> str:
    return f"{key.project}.{key.name}"
