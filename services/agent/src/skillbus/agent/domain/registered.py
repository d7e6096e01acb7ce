"""A registered server as it is kept: what was registered, and what its last listing gave."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from pydantic import Field

from skillbus.common.records import StoredRecord
from skillbus.contracts.agent.mcp_servers import McpServer, McpServerState, McpTransport, RegisterMcpServer
from skillbus.contracts.indexer.tools import ToolFinding
from skillbus.contracts.message import Message

_BRIEF_ADDRESS: Final = 300
_BRIEF_FINDINGS: Final = 5
"""In a list, whose hundreds of servers have to fit one message."""


class ServerSeen(Message):
    """How a server was when one of the replicas last looked."""

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
    """What it called itself when it was first listed; its tools are attributed to that name."""


class RegisteredServer(Message):
    """A server of a project. Values of its headers and variables are in it, and go nowhere else."""

    registration: RegisterMcpServer
    id: str
    """Of this registration: another for each time that a server is registered under its name."""
    registered_at: datetime
    seen: ServerSeen = Field(default_factory=ServerSeen)

    @property
    def key(self) -> "ServerKey":
        """Which server it is."""
        return ServerKey(self.registration.project, self.registration.name)

    @property
    def address(self) -> str:
        """The URL, or the command with its arguments."""
        registration = self.registration
        return registration.url or " ".join((registration.command or "", *registration.args))

    def told(self, *, briefly: bool = False) -> McpServer:
        """The server as callers see it: names of its headers and variables, and no values."""
        registration, seen = self.registration, self.seen
        return McpServer(
            project=registration.project,
            name=registration.name,
            transport=McpTransport.STDIO if registration.url is None else McpTransport.HTTP,
            address=self.address[:_BRIEF_ADDRESS] if briefly else self.address,
            header_names=tuple(sorted(registration.headers)),
            env_names=tuple(sorted(registration.env)),
            timeout_s=registration.timeout_s,
            state=seen.state,
            problem=seen.problem,
            server_name=seen.server_name,
            server_version=seen.server_version,
            protocol=seen.protocol,
            tools=seen.tools,
            quarantined=seen.quarantined,
            findings=seen.findings[:_BRIEF_FINDINGS] if briefly else seen.findings,
            listed_at=seen.listed_at,
            registered_at=self.registered_at,
        )


@dataclass(frozen=True, slots=True, order=True)
class ServerKey:
    """Which server."""

    project: str
    name: str


class ServerStore(Protocol):
    """Where registered servers are kept, for all replicas. Raises RequestError when it cannot be reached."""

    async def get(self, key: ServerKey) -> StoredRecord[RegisteredServer] | None:
        """The server; None if there is none."""
        ...

    async def put(self, server: RegisteredServer, revision: int) -> StoredRecord[RegisteredServer]:
        """Write it if it is still at `revision`, 0 for one that is new. Raises WriteConflictError if it is not."""
        ...

    async def delete(self, key: ServerKey) -> None:
        """Forget it. That it is not there is fine."""
        ...

    async def all(self) -> tuple[RegisteredServer, ...]:
        """All servers of all projects."""
        ...
