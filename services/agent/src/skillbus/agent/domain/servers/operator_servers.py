"""Servers of the operator's file, in front of the store of registered servers.

What is started comes from the file alone. The store, which the replicas share, holds only how a server was last seen.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import uuid4

import structlog

from skillbus.agent.domain.errors import ServerFailedError, ServerInFileError
from skillbus.agent.domain.servers.operator_file import (
    OperatorFileError,
    OperatorServer,
    build_record,
    parse_operator_file,
)
from skillbus.agent.domain.servers.registration import (
    FileServerRecord,
    RegisteredServer,
    ServerKey,
    ServerSeen,
    ServerStore,
)
from skillbus.common.records import StoredRecord
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer

log = structlog.get_logger(__name__)


_BY_REQUEST: Final = (
    "it was registered with a command by a request, which starts nothing any more: `skillbus mcp add NAME -- COMMAND` "
    "adds it to the operator's file mcp.json, `skillbus mcp remove NAME` removes it"
)


class OperatorFile(Protocol):
    """The file. Its methods do not block the event loop."""

    async def has_changed(self) -> bool:
        """Return True if the file is not as it was at the last `read`."""

    async def read(self) -> bytes | None:
        """Return the content, None without a file. Raises OperatorFileError if it must not be trusted."""


@dataclass(frozen=True, slots=True)
class _Entry:
    server: OperatorServer
    id: str
    """Id of this entry; a new one when it changes."""
    since: datetime


class OperatorServers:
    """Implements `ServerStore`: the servers of the file, with their stored state, and the registered servers."""

    def __init__(self, file: OperatorFile | None, registered: ServerStore, now: Callable[[], datetime]) -> None:
        self._file = file
        self._registered = registered
        self._now = now
        self._entries: dict[ServerKey, _Entry] = {}
        """Servers of the last good file."""
        self._was_read = False
        self._loading = asyncio.Lock()
        self.problem: str | None = None
        """Reason why the file is not used as it is now."""
        self.generation = 0
        """Number of changes of the entries so far."""

    async def load_file(self) -> None:
        """Read the file if it has changed. A broken file keeps the servers of its last good state."""
        async with self._loading:
            if self._file is not None and await self._file.has_changed():
                await self._load(self._file)

    async def _load(self, file: OperatorFile) -> None:
        try:
            content = await file.read()
            servers = {} if content is None else parse_operator_file(content)
        except OperatorFileError as error:
            self.problem = str(error)
            log.warning("mcp_file_refused", problem=self.problem)
            return
        entries = {}
        for key, server in servers.items():
            known = self._entries.get(key)
            if known is None or known.server != server:
                known = _Entry(server, uuid4().hex, self._now())
            entries[key] = known
        self._entries, self._was_read, self.problem = entries, True, None
        self.generation += 1
        log.info("mcp_file_read", servers=[key.name for key in sorted(entries)])

    def check_not_in_file(self, key: ServerKey) -> None:
        """Raise ServerInFileError if a server of this name is in the file."""
        if key in self._entries:
            raise ServerInFileError(
                f"the MCP server {key.name} is in the operator's file mcp.json: change it there, or with "
                "`skillbus mcp add` and `skillbus mcp remove` as the user who runs skillbus"
            )

    def find_server(self, registration: RegisterMcpServer | FileServerRecord) -> OperatorServer:
        """Return what a session is opened with: for a record of the file its entry. Raises ServerFailedError."""
        if isinstance(registration, RegisterMcpServer):
            return registration
        entry = self._entries.get(ServerKey(registration.project, registration.name))
        if entry is not None:
            return entry.server
        if not registration.in_file:
            raise ServerFailedError(_BY_REQUEST)
        raise ServerFailedError(f"it is not in the operator's file mcp.json: {self.problem or 'no such entry is read'}")

    async def load_server(self, key: ServerKey) -> StoredRecord[RegisteredServer] | None:
        stored = await self._registered.load_server(key)
        if stored is not None and self.is_stale(stored.record):
            await self.load_file()  # another replica has read a newer file
        if (entry := self._entries.get(key)) is None:
            return stored
        record = _build_server(entry, None if stored is None else stored.record)
        return StoredRecord(record, 0 if stored is None else stored.revision)

    async def save_server(self, server: RegisteredServer, revision: int) -> StoredRecord[RegisteredServer]:
        return await self._registered.save_server(server, revision)

    async def delete_server(self, key: ServerKey) -> None:
        await self._registered.delete_server(key)

    async def list_servers(self) -> tuple[RegisteredServer, ...]:
        stored = {server.key: server for server in await self._registered.list_servers()}
        in_file = {key: _build_server(entry, stored.get(key)) for key, entry in self._entries.items()}
        return tuple((stored | in_file).values())

    def is_stale(self, server: RegisteredServer) -> bool:
        """Return True for the record of a server that was in the file and is not any more."""
        return self._was_read and server.is_in_file and server.key not in self._entries


def _build_server(entry: _Entry, stored: RegisteredServer | None) -> RegisteredServer:
    seen = stored.seen if stored is not None and stored.is_in_file else ServerSeen()
    return RegisteredServer(registration=build_record(entry.server), id=entry.id, registered_at=entry.since, seen=seen)
