"""A registered server: its registration, the result of its last listing, and the store of both."""

from datetime import datetime
from typing import Final, NamedTuple, Protocol

from pydantic import Field

from skillbus.common.records import StoredRecord
from skillbus.contracts.agent.mcp_servers import (
    McpServer,
    McpServerName,
    McpServerSource,
    McpServerState,
    McpTransport,
    RegisterMcpServer,
    ServerTimeout,
)
from skillbus.contracts.indexer.tools import ToolFinding
from skillbus.contracts.message import Message, ProjectMessage

_BRIEF_ADDRESS: Final = 300
_BRIEF_FINDINGS: Final = 5
"""Bounds of each server in a list: hundreds of servers have to fit into one message."""


class ServerKey(NamedTuple):
    """Identity of a server."""

    project: str
    name: str


class ServerSeen(Message):
    """State of a server when a replica last looked at it."""

    state: McpServerState = McpServerState.CONNECTING
    problem: str | None = None
    server_name: str | None = None
    server_version: str | None = None
    protocol: str | None = None
    tools: int = 0
    quarantined: int = 0
    findings: tuple[ToolFinding, ...] = ()
    listed_at: datetime | None = None
    known_as: str | None = None
    """Name that the server reported at its first listing; its tools are attributed to that name."""


class FileServerRecord(ProjectMessage):
    """Record of a server whose command or address is in the operator's file, and never in the store.

    A stored record therefore starts nothing: a session is opened with the entry of the file that the agent has read.
    """

    name: McpServerName
    timeout_s: ServerTimeout = 20.0
    in_file: bool = False
    """False for a command that was registered by a request, which earlier versions allowed."""
    transport: McpTransport = McpTransport.STDIO
    address: str = ""
    header_names: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()


class RegisteredServer(Message):
    """A server of a project. It holds the values of headers, which must not be passed on."""

    registration: RegisterMcpServer | FileServerRecord = Field(union_mode="left_to_right")
    id: str
    """Id of this registration; a new one for each registration under the same name."""
    registered_at: datetime
    seen: ServerSeen = Field(default_factory=ServerSeen)

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.registration.project, self.registration.name)

    @property
    def is_in_file(self) -> bool:
        """True if the server is, or was at its last record, in the operator's file."""
        return isinstance(self.registration, FileServerRecord) and self.registration.in_file

    def describe(self, *, brief: bool = False) -> McpServer:
        """Return the server for callers: names of its headers and variables without their values."""
        registration, seen = self.registration, self.seen
        if isinstance(registration, RegisterMcpServer):
            transport, address = McpTransport.HTTP, registration.url
            header_names, env_names = tuple(sorted(registration.headers)), tuple[str, ...]()
        else:
            transport, address = registration.transport, registration.address
            header_names, env_names = registration.header_names, registration.env_names
        return McpServer(
            project=registration.project,
            name=registration.name,
            source=McpServerSource.FILE if self.is_in_file else McpServerSource.REQUEST,
            transport=transport,
            address=address[:_BRIEF_ADDRESS] if brief else address,
            header_names=header_names,
            env_names=env_names,
            timeout_s=registration.timeout_s,
            state=seen.state,
            problem=seen.problem,
            server_name=seen.server_name,
            server_version=seen.server_version,
            protocol=seen.protocol,
            tools=seen.tools,
            quarantined=seen.quarantined,
            findings=seen.findings[:_BRIEF_FINDINGS] if brief else seen.findings,
            listed_at=seen.listed_at,
            registered_at=self.registered_at,
        )


class ServerStore(Protocol):
    """Stores the registered servers for all replicas. Raises RequestError when it cannot be reached."""

    async def load_server(self, key: ServerKey) -> StoredRecord[RegisteredServer] | None:
        """Return the server, or None."""

    async def save_server(self, server: RegisteredServer, revision: int) -> StoredRecord[RegisteredServer]:
        """Write the server over `revision`, 0 for a new one. Raises WriteConflictError if it was written since."""

    async def delete_server(self, key: ServerKey) -> None:
        """Delete the server if it exists."""

    async def list_servers(self) -> tuple[RegisteredServer, ...]:
        """Return the servers of all projects."""
