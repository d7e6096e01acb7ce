"""MCP servers: registration, listing, refresh and removal."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import ToolFinding
from skillbus.contracts.message import WITHOUT_NUL, Message, Project, ProjectMessage

McpServerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _address(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s#]*)?", value):
        raise ValueError("is not an address like https://mcp.example.com/mcp; put keys into headers, by reference")
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    if bad := [name for name in value if not _HEADER.fullmatch(name)]:
        raise ValueError(f"{bad[0][:50]!r} is not the name of an HTTP header")
    return value


SecretText = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^[^\r\n]*$"), WITHOUT_NUL]
"""Secret or plain text. `env:NAME` and `file:PATH` are replaced by their values at every use; other text is used as it
is. Replies never contain these values, only their names."""


ServerTimeout = Annotated[float, Field(ge=0.5, le=300.0, allow_inf_nan=False)]


class McpTransport(StrEnum):
    """Transport of an MCP server."""

    HTTP = "http"
    """Streamable HTTP."""
    STDIO = "stdio"
    """Standard input and output of a child process."""


class McpServerSource(StrEnum):
    """Origin of an MCP server."""

    REQUEST = "request"
    """Registration by a request."""
    FILE = "file"
    """Entry of the operator's file `mcp.json`, where alone it can be changed."""


class RegisterMcpServer(ProjectMessage):
    """Registration of an MCP server that runs at a `url`. A server with the same name is replaced.

    Servers that skillbus starts as processes are never registered by a request: they are in the operator's file.
    """

    name: McpServerName
    url: Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_address)]
    """Address of a running server that speaks Streamable HTTP."""
    headers: Annotated[dict[str, SecretText], Field(max_length=50), AfterValidator(_headers)] = Field(
        default_factory=dict
    )
    """HTTP headers of every request to `url`. Values `env:NAME` and `file:PATH` are references to secrets, which the
    operator lists in `SKILLBUS_SECRETS` with the hosts that each may be sent to."""
    timeout_s: ServerTimeout = 20.0
    """Timeout of each reply of the server and of a whole listing of its tools, in seconds."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_command(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("command") is not None:
            raise ValueError(
                "commands are not accepted in requests: `skillbus mcp add NAME -- COMMAND` adds one to the operator's "
                "file mcp.json, when the user who runs skillbus calls it on the same machine"
            )
        return value


class McpServerState(StrEnum):
    """State of the connection to an MCP server. Only tools of a connected server can be called."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILED = "failed"


class McpServer(ProjectMessage):
    """Registered MCP server. Of headers and environment variables only the names are returned, never the values."""

    name: McpServerName
    source: McpServerSource = McpServerSource.REQUEST
    transport: McpTransport
    address: str
    """URL, or command with its arguments."""
    header_names: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    timeout_s: float
    state: McpServerState
    problem: str | None = None
    """Reason why it is not connected, or why its last listing was refused."""
    server_name: str | None = None
    """Name that the server gives itself."""
    server_version: str | None = None
    """Version that the server gives itself."""
    protocol: str | None = None
    """MCP protocol version of the connection."""
    tools: int = 0
    """Number of tools in the last listing."""
    quarantined: int = 0
    findings: tuple[ToolFinding, ...] = ()
    """Remarks about the server: it changed its name, lists too many tools, or gives two tools one name."""
    listed_at: datetime | None = None
    registered_at: datetime


class McpServerSelector(ProjectMessage):
    """Name of the wanted server."""

    name: McpServerName


class ListMcpServers(ProjectMessage):
    """Query for all MCP servers of a project."""


class McpServersListed(Message):
    """MCP servers, ordered by name."""

    servers: tuple[McpServer, ...]
    file_problem: str | None = None
    """Reason why the operator's file is not used as it is now. The servers of its last good state are kept."""


class McpServerRemoved(Message):
    """Removed MCP server."""

    name: McpServerName
    tools: int
    """Number of its tools that were removed from the catalogue."""


class McpServerSeen(Message):
    """Result of listing the tools of an MCP server."""

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
    summary="Register an MCP server by URL, add its tools to the catalogue, and follow its changes.",
    raises=(ErrorCode.CONFLICT,),
    stores_data=True,
    timeout_s=60.0,
    example={"name": "nobody", "url": "http://127.0.0.1:9/mcp", "timeout_s": 1},
    act=AuditedAct("name"),
)
LIST_MCP_SERVERS: Final = Endpoint(
    service=SERVICE,
    name="list_mcp_servers",
    request=ListMcpServers,
    reply=McpServersListed,
    summary="List the MCP servers of a project with their states.",
    is_read=True,
)
GET_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="get_mcp_server",
    request=McpServerSelector,
    reply=McpServer,
    summary="Return one MCP server.",
    is_read=True,
    raises=_NOT_FOUND,
    example={"name": "nobody"},
)
REFRESH_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="refresh_mcp_server",
    request=McpServerSelector,
    reply=McpServer,
    summary="List the tools of an MCP server again, now.",
    raises=_NOT_FOUND,
    stores_data=True,
    timeout_s=60.0,
    example={"name": "nobody"},
    act=AuditedAct("name"),
)
REMOVE_MCP_SERVER: Final = Endpoint(
    service=SERVICE,
    name="remove_mcp_server",
    request=McpServerSelector,
    reply=McpServerRemoved,
    summary="Remove an MCP server and its tools.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=60.0,
    example={"name": "nobody"},
    act=AuditedAct("name"),
)
MCP_SERVER_LISTED: Final = Event(
    SERVICE, "mcp-server", "listed", McpServerSeen, "The catalogue holds the current tools of an MCP server."
)
MCP_SERVER_FAILED: Final = Event(
    SERVICE,
    "mcp-server",
    "failed",
    McpServerSeen,
    "The tools of an MCP server could not be listed; the catalogue keeps the previous ones.",
)
