"""Builtin tools, calls of tools, and the audit of what can be called."""

from typing import Final

from pydantic import Field, JsonValue

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import AuditDifference, ToolDescription, ToolId
from skillbus.contracts.message import DEFAULT_PROJECT, Empty, Message, Project


class BuiltinsListed(Message):
    """The builtin tools, ordered by name."""

    tools: tuple[ToolDescription, ...]


class CallTool(Message):
    """A call of an MCP or a builtin tool; skills are run by the sandbox."""

    project: Project = DEFAULT_PROJECT
    id: ToolId
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ToolCalled(Message):
    """What a tool answered."""

    id: str
    is_error: bool = False
    """Whether the tool says that it failed; `text` says why."""
    text: str = ""
    """The text parts of the answer."""
    content: tuple[JsonValue, ...] = ()
    """All parts, as MCP has them; those that are large are left out, and `truncated` says so."""
    structured: JsonValue = None
    truncated: bool = False
    took_ms: float


class AuditCallable(Message):
    """Whether what the catalogue has can be called, and what can be called is in the catalogue."""

    project: Project = DEFAULT_PROJECT
    fix: bool = False
    """Whether to list every server again and bring the catalogue up to date."""


class CallableAudited(Message):
    """What an audit of calls found. It agrees when there are no differences and no server is silent."""

    callable: int
    """Tools that servers and builtins offer now."""
    catalogued: int
    """Tools of these kinds in the catalogue, quarantined and disabled ones included."""
    silent: tuple[str, ...] = ()
    """Servers that do not answer: nothing is known of their tools."""
    differences: tuple[AuditDifference, ...] = ()


LIST_BUILTINS: Final = Endpoint(
    service=SERVICE,
    name="list_builtins",
    request=Empty,
    reply=BuiltinsListed,
    summary="The builtin tools.",
)


CALL_TOOL: Final = Endpoint(
    service=SERVICE,
    name="call_tool",
    request=CallTool,
    reply=ToolCalled,
    summary="Call an MCP or a builtin tool.",
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
    summary="Compare what the catalogue has with what servers and builtins offer.",
    timeout_s=120.0,
    example={"fix": False},
)
