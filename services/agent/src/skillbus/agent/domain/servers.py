"""All registered servers: registered, looked at, removed; and a follower for each, in every replica."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Final
from uuid import uuid4
from weakref import WeakValueDictionary

import structlog

from skillbus.agent.domain.errors import ServerNotAllowedError, ServerUnknownError
from skillbus.agent.domain.following import Follower, FollowerPorts, Timing
from skillbus.agent.domain.ports import Changes
from skillbus.agent.domain.registered import RegisteredServer, ServerKey
from skillbus.common.records import WriteConflictError
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer
from skillbus.contracts.errors import RequestError

_TRIES: Final = 3
_LOOK_AT_ALL_EVERY_S: Final = 60.0
_AGAIN_AFTER_S: Final = 2.0

log = structlog.get_logger(__name__)


class Servers:
    """The servers of all projects. `running` has to be entered for them to be followed."""

    def __init__(self, ports: FollowerPorts, timing: Timing, *, stdio_allowed: bool) -> None:
        self._ports = ports
        self._timing = timing
        self._stdio_allowed = stdio_allowed
        self._followed: dict[ServerKey, tuple[Follower, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[ServerKey, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def running(self, changes: Changes) -> AsyncGenerator[None]:
        """Follow every registered server for as long as the context is open."""
        keeping_up = _alone(lambda: self._keep_up(changes))
        try:
            yield
        finally:
            await _ended(keeping_up)
            await asyncio.gather(*(self._stop(key) for key in tuple(self._followed)))
            if self._ending:  # by a task that was cancelled while it waited for them
                await asyncio.wait(self._ending)

    async def register(self, request: RegisterMcpServer, within_s: float) -> RegisteredServer:
        """Keep a server, and wait until it was first listed, or could not be, or time is over.

        Raises:
            ServerNotAllowedError: it has to be started, and that is not allowed here.
            WriteConflictError: others register the same name.
        """
        if request.command is not None and not self._stdio_allowed:
            raise ServerNotAllowedError(
                "servers that have to be started are not allowed here: register a URL, or set "
                "SKILLBUS_AGENT_STDIO_SERVERS=true where the agent may run commands"
            )
        server = await self._keep(request, self._ports.now())
        follower = await self._follow(server)
        await follower.looked(within_s)
        return follower.server

    async def refresh(self, key: ServerKey, within_s: float) -> RegisteredServer:
        """List a server again. Raises ServerUnknownError."""
        follower = await self.follower(key)
        await follower.look(within_s)
        return follower.server

    async def remove(self, key: ServerKey) -> int:
        """Forget a server and its tools; how many they were. Raises ServerUnknownError, RequestError."""
        await self.get(key)
        source = f"mcp:{key.name}"
        async with self._turn(key):
            await self._stop(key)
            removed = await self._ports.catalogue.remove(key.project, source)
            await self._ports.store.delete(key)
            # Another replica may have listed it in between.
            return removed + await self._ports.catalogue.remove(key.project, source)

    async def get(self, key: ServerKey) -> RegisteredServer:
        """A server. Raises ServerUnknownError."""
        stored = await self._ports.store.get(key)
        if stored is None:
            raise ServerUnknownError(f"no MCP server {key.name} is registered in the project {key.project}")
        return stored.record

    async def all_of(self, project: str) -> tuple[RegisteredServer, ...]:
        """The servers of a project, by name."""
        found = [server for server in await self._ports.store.all() if server.key.project == project]
        return tuple(sorted(found, key=lambda server: server.key))

    async def follower(self, key: ServerKey) -> Follower:
        """Who follows a server; it is begun if it was not yet. Raises ServerUnknownError."""
        return await self._follow(await self.get(key))

    async def _keep(self, request: RegisterMcpServer, now: datetime) -> RegisteredServer:
        server = RegisteredServer(registration=request, id=uuid4().hex, registered_at=now)
        for _ in range(_TRIES):
            known = await self._ports.store.get(server.key)
            with suppress(WriteConflictError):
                return (await self._ports.store.put(server, known.revision if known else 0)).record
        raise WriteConflictError(f"the MCP server {request.name}")

    async def _follow(self, server: RegisteredServer) -> Follower:
        """Who follows a server as it is registered by now. Raises ServerUnknownError."""
        if (follower := self._follower_of(server)) is not None:
            return follower
        # Ending a session takes seconds, in which others register the server, remove it, or hear of a change of it.
        async with self._turn(server.key):
            stored = await self._ports.store.get(server.key)
            if stored is not None and (follower := self._follower_of(stored.record)) is not None:
                return follower
            await self._stop(server.key)
            if stored is None:
                raise ServerUnknownError(f"the MCP server {server.key.name} was removed at this moment")
            follower = Follower(stored.record, self._ports, self._timing)
            self._followed[server.key] = follower, _alone(follower.run)
            return follower

    def _follower_of(self, server: RegisteredServer) -> Follower | None:
        known = self._followed.get(server.key)
        return known[0] if known is not None and known[0].server.id == server.id and not known[1].done() else None

    def _turn(self, key: ServerKey) -> asyncio.Lock:
        """Whoever begins or ends the following of a server has its turn."""
        return self._turns.setdefault(key, asyncio.Lock())

    async def _stop(self, key: ServerKey) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            self._ending.add(followed[1])
            followed[1].add_done_callback(self._ending.discard)
            await _ended(followed[1])

    async def _keep_up(self, changes: Changes) -> None:
        key: ServerKey | None = None
        while True:
            try:
                await (self._match_all() if key is None else self._match(key))
                key = await changes.next(_LOOK_AT_ALL_EVERY_S)
            except RequestError as error:
                log.warning("mcp_servers_not_read", error=error.message)
                key = None
                await asyncio.sleep(_AGAIN_AFTER_S)
            except Exception:
                # Supervises: what nobody thought of must not end the following of all servers.
                log.exception("mcp_servers_not_followed")
                key = None
                await asyncio.sleep(_AGAIN_AFTER_S)

    async def _match_all(self) -> None:
        servers = {server.key: server for server in await self._ports.store.all()}
        for key in self._followed.keys() - servers.keys():
            await self._match(key)  # it may have been registered since
        for server in servers.values():
            with suppress(ServerUnknownError):
                await self._follow(server)

    async def _match(self, key: ServerKey) -> None:
        stored = await self._ports.store.get(key)
        if stored is not None:
            with suppress(ServerUnknownError):
                await self._follow(stored.record)
            return
        async with self._turn(key):
            if await self._ports.store.get(key) is None:
                await self._stop(key)


def _alone(work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Task[None]:
    """A task that inherits nothing of the request that it is begun in, its deadline above all."""
    return asyncio.create_task(work(), context=contextvars.Context())


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
