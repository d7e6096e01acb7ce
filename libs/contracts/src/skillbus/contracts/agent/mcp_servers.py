"""MCP servers: register, list, refresh and remove."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import ToolFinding
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project

McpServerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]


_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _address(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s#]*)?", value):
        raise ValueError("is no address like https://mcp.example.com/mcp; keys go into headers, by reference")
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    if bad := [name for name in value if not _HEADER.fullmatch(name)]:
        raise ValueError(f"{bad[0][:50]!r} is no name of an HTTP header")
    return value


def _variables(value: dict[str, str]) -> dict[str, str]:
    if bad := [name for name in value if not name or "=" in name or "\0" in name]:
        raise ValueError(f"{bad[0][:50]!r} is no name of an environment variable")
    return value


SecretText = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^[^\r\n]*$"), WITHOUT_NUL]
"""`env:NAME` and `file:PATH` stand for what is there when it is used; anything else stands for itself. What a server is
given is never told: only its names are."""


class McpTransport(StrEnum):
    """How a server is spoken to."""

    HTTP = "http"
    """Streamable HTTP."""
    STDIO = "stdio"
    """A child process."""


class RegisterMcpServer(Message):
    """A server whose tools are to be in the catalogue; one of that name is replaced. Either `url` or `command`."""

    project: Project = DEFAULT_PROJECT
    name: McpServerName
    url: Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_address)] | None = None
    headers: Annotated[dict[str, SecretText], Field(max_length=50), AfterValidator(_headers)] = Field(
        default_factory=dict
    )
    command: Annotated[str, StringConstraints(min_length=1, max_length=1_000), WITHOUT_NUL] | None = None
    args: tuple[Annotated[str, StringConstraints(max_length=4_000), WITHOUT_NUL], ...] = Field(
        default=(), max_length=100
    )
    env: Annotated[dict[str, SecretText], Field(max_length=100), AfterValidator(_variables)] = Field(
        default_factory=dict
    )
    """Of the process, beside a few harmless ones; nothing else of the service's own environment is passed on."""
    timeout_s: float = Field(default=20.0, ge=0.5, le=300.0, allow_inf_nan=False)
    """For each answer of the server, and for the whole of its listing."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("give either `url`, of a server that is there, or `command`, of one to start")
        return self


class McpServerState(StrEnum):
    """Whether a server's tools can be called."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILED = "failed"


class McpServer(Message):
    """A registered server."""

    project: Project = DEFAULT_PROJECT
    name: McpServerName
    transport: McpTransport
    address: str
    """The URL, or the command with its arguments."""
    header_names: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    timeout_s: float
    state: McpServerState
    problem: str | None = None
    """Why it is not connected, or why its last listing was not taken."""
    server_name: str | None = None
    """What it calls itself."""
    server_version: str | None = None
    protocol: str | None = None
    tools: int = 0
    """Of its last listing."""
    quarantined: int = 0
    findings: tuple[ToolFinding, ...] = ()
    """About the server: it renamed itself, lists too much, gives one name to two tools."""
    listed_at: datetime | None = None
    registered_at: datetime


class McpServerSelector(Message):
    """One server."""

    project: Project = DEFAULT_PROJECT
    name: McpServerName


class ListMcpServers(Message):
    """All servers of a project."""

    project: Project = DEFAULT_PROJECT


class McpServersListed(Message):
    """Servers, ordered by name."""

    servers: tuple[McpServer, ...]


class McpServerRemoved(Message):
    """The server is gone, and its tools with it."""

    name: McpServerName
    tools: int


class McpServerSeen(Message):
    """A server was listed, or could not be."""

    project: Project
    name: McpServerName
    tools: int = 0
    created: int = 0
    updated: int = 0
    quarantined: int = 0
    removed: int = 0
    problem: str | None = None


_NOT_FOUND = (ErrorCode.NOT_FOUND,)


REGISTER_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="register_mcp_server",
    request=RegisterMcpServer,
    reply=McpServer,
    summary="Register an MCP server: its tools are listed at once, put into the catalogue, and followed.",
    raises=(ErrorCode.FORBIDDEN, ErrorCode.CONFLICT),
    timeout_s=60.0,
    example={"name": "nobody", "url": "http://127.0.0.1:9/mcp", "timeout_s": 1},
)


LIST_MCP_SERVERS: Final = Endpoint(
    service=SERVICE,
    name="list_mcp_servers",
    request=ListMcpServers,
    reply=McpServersListed,
    summary="The MCP servers of a project, and how they are.",
)


GET_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="get_mcp_server",
    request=McpServerSelector,
    reply=McpServer,
    summary="One MCP server.",
    raises=_NOT_FOUND,
    example={"name": "nobody"},
)


REFRESH_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="refresh_mcp_server",
    request=McpServerSelector,
    reply=McpServer,
    summary="List an MCP server's tools again, now.",
    raises=_NOT_FOUND,
    timeout_s=60.0,
    example={"name": "nobody"},
)


REMOVE_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="remove_mcp_server",
    request=McpServerSelector,
    reply=McpServerRemoved,
    summary="Remove an MCP server and its tools.",
    raises=_NOT_FOUND,
    timeout_s=60.0,
    example={"name": "nobody"},
)


MCP_SERVER_LISTED: Final = Event(
    SERVICE, "mcp-server", "listed", McpServerSeen, "The catalogue has a server's tools as they are now."
)


MCP_SERVER_FAILED: Final = Event(
    SERVICE, "mcp-server", "failed", McpServerSeen, "A server could not be listed; its tools stay as they were."
)
