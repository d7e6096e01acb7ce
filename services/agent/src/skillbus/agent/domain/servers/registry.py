"""All registered servers: registration, removal, and a follower for each server in every replica."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

import structlog

from skillbus.agent.domain.errors import ServerUnknownError
from skillbus.agent.domain.ports import ServerChangeFeed
from skillbus.agent.domain.servers.follower import FollowerPorts, FollowTiming, ServerFollower
from skillbus.agent.domain.servers.registration import RegisteredServer, ServerKey
from skillbus.common.background import FailureLog, end_tasks
from skillbus.common.keyed_locks import KeyedLocks
from skillbus.common.records import WriteConflictError
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX

_TRIES: Final = 3
_LOOK_AT_ALL_EVERY_S: Final = 60.0
_LOOK_AT_FILE_EVERY_S: Final = 1.0
_RETRY_S: Final = 2.0

log = structlog.get_logger(__name__)


class ServerRegistry:
    """The servers of all projects. They are followed while the context `follow_all` is open."""

    def __init__(self, ports: FollowerPorts, timing: FollowTiming) -> None:
        self._ports = ports
        self._timing = timing
        self._followers: dict[ServerKey, ServerFollower] = {}
        self._stopping: set[ServerFollower] = set()
        self._locks = KeyedLocks[ServerKey]()
        """Held to start or stop the follower of a server."""

    @asynccontextmanager
    async def follow_all(self, changes: ServerChangeFeed) -> AsyncGenerator[None]:
        """Follow every registered server while the context is open."""
        await self._ports.store.load_file()
        watching = {
            asyncio.create_task(watch, context=contextvars.Context())
            for watch in (self._watch(changes), self._watch_file())
        }
        try:
            yield
        finally:
            await end_tasks(*watching)
            await asyncio.gather(*(self._stop_follower(key) for key in tuple(self._followers)))
            # Those followers remain that were being stopped by a task that was cancelled.
            await asyncio.gather(*(follower.stop() for follower in self._stopping))

    async def register(self, request: RegisterMcpServer, within_s: float) -> RegisteredServer:
        """Store a server, and wait until its first listing succeeds, fails or takes too long.

        Raises:
            ServerInFileError: A server of this name is in the operator's file.
            WriteConflictError: Others register the same name at the same time.
        """
        await self._check_not_in_file(ServerKey(request.project, request.name))
        server = RegisteredServer(registration=request, id=uuid4().hex, registered_at=self._ports.now())
        for _ in range(_TRIES):
            known = await self._ports.store.load_server(server.key)
            with suppress(WriteConflictError):
                server = (await self._ports.store.save_server(server, known.revision if known else 0)).record
                break
        else:
            raise WriteConflictError(f"the MCP server {request.name}")
        follower = await self._follow(server)
        await follower.wait_for_listing(within_s)
        return follower.server

    async def refresh(self, key: ServerKey, within_s: float) -> RegisteredServer:
        """List a server again, as the operator's file is now. Raises ServerUnknownError."""
        await self._ports.store.load_file()
        follower = await self.find_follower(key)
        await follower.relist(within_s)
        return follower.server

    async def unregister(self, key: ServerKey) -> int:
        """Remove a server and its tools; return their number.

        Raises:
            ServerInFileError: The server is in the operator's file.
            ServerUnknownError: No such server is registered.
            RequestError: The catalogue or the store refuses.
        """
        await self._check_not_in_file(key)
        await self.get_server(key)
        return await self._remove(key)

    async def _check_not_in_file(self, key: ServerKey) -> None:
        await self._ports.store.load_file()
        self._ports.store.check_not_in_file(key)

    async def _remove(self, key: ServerKey) -> int:
        source = f"{MCP_SOURCE_PREFIX}{key.name}"
        async with self._locks.hold(key):
            await self._stop_follower(key)
            removed = await self._ports.catalogue.remove_tools(key.project, source)
            await self._ports.store.delete_server(key)
            # Another replica may have listed it in between.
            return removed + await self._ports.catalogue.remove_tools(key.project, source)

    async def get_server(self, key: ServerKey) -> RegisteredServer:
        """Return a server. Raises ServerUnknownError."""
        stored = await self._ports.store.load_server(key)
        if stored is None:
            raise ServerUnknownError(f"no MCP server {key.name} is registered in the project {key.project}")
        return stored.record

    async def list_servers(self, project: str) -> tuple[RegisteredServer, ...]:
        """Return the servers of a project, ordered by name."""
        found = [server for server in await self._list_followed() if server.key.project == project]
        return tuple(sorted(found, key=lambda server: server.key))

    async def find_follower(self, key: ServerKey) -> ServerFollower:
        """Return the follower of a server, started if necessary. Raises ServerUnknownError."""
        return await self._follow(await self.get_server(key))

    async def _follow(self, server: RegisteredServer) -> ServerFollower:
        """Return a follower of the server's latest registration. Raises ServerUnknownError."""
        if (follower := self._find_running(server)) is not None:
            return follower
        # Ending a session takes seconds. Others may register or remove the server, or see its change, in that time.
        async with self._locks.hold(server.key):
            stored = await self._ports.store.load_server(server.key)
            if stored is not None and (follower := self._find_running(stored.record)) is not None:
                return follower
            await self._stop_follower(server.key)
            if stored is None:
                raise ServerUnknownError(f"the MCP server {server.key.name} was removed in the meantime")
            follower = ServerFollower(stored.record, self._ports, self._timing)
            self._followers[server.key] = follower
            follower.start()
            return follower

    def _find_running(self, server: RegisteredServer) -> ServerFollower | None:
        follower = self._followers.get(server.key)
        return follower if follower is not None and follower.server.id == server.id and not follower.ended else None

    async def _stop_follower(self, key: ServerKey) -> None:
        if (follower := self._followers.pop(key, None)) is not None:
            self._stopping.add(follower)
            await follower.stop()
            self._stopping.discard(follower)

    async def _watch(self, changes: ServerChangeFeed) -> None:
        failures = FailureLog()
        key: ServerKey | None = None
        while True:
            failed = True
            with failures.guard("follow_mcp_servers"):
                await (self._match_all() if key is None else self._match(key))
                key = await changes.next(_LOOK_AT_ALL_EVERY_S)
                failed = False
            if failed:
                key = None
                await asyncio.sleep(_RETRY_S)

    async def _watch_file(self) -> None:
        failures = FailureLog()
        followed = 0
        while True:
            with failures.guard("follow_mcp_file"):
                await self._ports.store.load_file()
                if (generation := self._ports.store.generation) != followed:
                    await self._match_all()
                    await self._remove_stale()
                    followed = generation
            await asyncio.sleep(_LOOK_AT_FILE_EVERY_S)

    async def _match_all(self) -> None:
        servers = {server.key: server for server in await self._list_followed()}
        for key in self._followers.keys() - servers.keys():
            await self._match(key)  # it may have been registered since
        for server in servers.values():
            with suppress(ServerUnknownError):
                await self._follow(server)

    async def _match(self, key: ServerKey) -> None:
        stored = await self._ports.store.load_server(key)
        if stored is not None and not self._ports.store.is_stale(stored.record):
            with suppress(ServerUnknownError):
                await self._follow(stored.record)
            return
        async with self._locks.hold(key):
            stored = await self._ports.store.load_server(key)
            if stored is None or self._ports.store.is_stale(stored.record):
                await self._stop_follower(key)

    async def _list_followed(self) -> list[RegisteredServer]:
        return [server for server in await self._ports.store.list_servers() if not self._ports.store.is_stale(server)]

    async def _remove_stale(self) -> None:
        """Remove the servers that were in the operator's file, also before a restart, and are not any more."""
        for server in await self._ports.store.list_servers():
            if self._ports.store.is_stale(server):
                tools = await self._remove(server.key)
                log.info("mcp_server_removed", server=server.key.name, tools=tools, reason="it left mcp.json")
