"""Builtin tools, tool calls, and the audit of callable tools."""

from typing import Final

from pydantic import Field, JsonValue

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import AuditDifference, ToolDescription, ToolId
from skillbus.contracts.message import Empty, Message, ProjectMessage


class BuiltinsListed(Message):
    """Builtin tools, ordered by name."""

    tools: tuple[ToolDescription, ...]


class CallTool(ProjectMessage):
    """Call of an MCP tool or a builtin tool. Skills are run by the sandbox instead."""

    id: ToolId
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments by name, validated against the tool's `parameters`."""


class ToolCalled(Message):
    """Reply of a tool."""

    id: str
    is_error: bool = False
    """True if the tool reports a failure. `text` holds the reason."""
    text: str = ""
    """Text parts of the reply, joined."""
    content: tuple[JsonValue, ...] = ()
    """All parts of the reply in MCP's format. Large parts are left out, and `truncated` is true then."""
    structured: JsonValue = None
    truncated: bool = False
    """True if a part was cut or left out."""
    took_ms: float


class AuditCallable(ProjectMessage):
    """Audit of catalogued tools against those that servers offer."""

    fix: bool = False
    """True lists every server again and updates the catalogue."""


class CallableAudited(Message):
    """Result of an audit of calls. Without differences and silent servers, the catalogue agrees with the servers."""

    callable: int
    """Tools that MCP servers and the agent service offer."""
    catalogued: int
    """MCP and builtin tools in the catalogue, including quarantined and disabled ones."""
    silent: tuple[str, ...] = ()
    """MCP servers that do not reply. Their tools are not compared."""
    differences: tuple[AuditDifference, ...] = ()


LIST_BUILTINS: Final = Endpoint(
    service=SERVICE,
    name="list_builtins",
    request=Empty,
    reply=BuiltinsListed,
    summary="List the builtin tools.",
)
CALL_TOOL: Final = Endpoint(
    service=SERVICE,
    name="call_tool",
    request=CallTool,
    reply=ToolCalled,
    summary="Call an MCP tool or a builtin tool.",
    raises=(
        ErrorCode.NOT_FOUND,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_CALLABLE,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.PAYLOAD_TOO_LARGE,
        ErrorCode.VECTOR_STORE_UNAVAILABLE,
    ),
    idempotent=False,
    timeout_s=60.0,
    example={"id": "builtin:calculate", "arguments": {"expression": "(1 + 2) * 3"}},
)
AUDIT_CALLABLE: Final = Endpoint(
    service=SERVICE,
    name="audit_callable",
    request=AuditCallable,
    reply=CallableAudited,
    summary="Compare the catalogue with the tools that MCP servers and the agent service offer.",
    timeout_s=120.0,
    example={"fix": False},
    act=AuditedAct(only_with="fix"),
)
