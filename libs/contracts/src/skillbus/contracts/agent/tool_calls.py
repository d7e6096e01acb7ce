"""Builtin tools, tool calls, and the audit of callable tools."""

from typing import Final

from pydantic import Field, JsonValue

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import AuditDifference, ToolDescription, ToolId
from skillbus.contracts.message import Content, Empty, Message, ProjectMessage
from skillbus.contracts.sandbox import skill_runs
from skillbus.contracts.sandbox.skill_runs import RunId


class BuiltinsListed(Message):
    """Builtin tools, ordered by name."""

    tools: tuple[ToolDescription, ...]


class CallTool(ProjectMessage):
    """Call of a tool of any type, by the prefix of its id: `builtin:`, `mcp:` or `skill:`."""

    id: ToolId
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments by name, validated against the tool's `parameters`, or against the schema of the skill's action."""
    action: str | None = None
    """Action of a skill. Absent means its default action. Other tools have none."""
    files: dict[str, Content] = Field(default_factory=dict, max_length=64)
    """Input files of a skill by name. Objects are in the bucket `runs`. Other tools take none."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Longest time that the tool may take, in seconds. Absent means the tool's own limit, which cannot be exceeded."""
    run_id: RunId | None = None
    """Id of the call, for cancelling it; of a skill also the id of its run. Absent means that the agent chooses one."""
    by_agent: bool = False
    """True if a model chose this call. A tool that needs an approval is then refused with `approval_required`. A call
    that a person makes needs none."""
    stream: bool = False
    """True also publishes the output of a skill on `skillbus.feed.run.printed.<run id>` while it runs. Subscribe before
    the request."""


class ToolCalled(Message):
    """Result of a call, the same for tools of every type."""

    id: str
    run_id: str
    """Id of the call; of a skill also the id of its run."""
    is_error: bool = False
    """True if the tool reports a failure. The text in `content` holds the reason."""
    content: tuple[JsonValue, ...] = ()
    """Parts of the result in MCP's format: `text`, `resource` with text, and `resource_link` for every file, image and
    sound. The `uri` of a link is `skillbus://runs/<run id>/<name>` or `skillbus://calls/<run id>/<name>`: the object
    `<run id>/out/<name>`, or `calls/<project>/<run id>/<name>`, of the bucket `runs`, for one day. Over HTTP it is the
    path of the file."""
    structured: JsonValue = None
    """Result as JSON, if the tool gives one."""
    truncated: bool = False
    """True if a part was cut or left out."""
    duration_ms: float

    @property
    def text(self) -> str:
        """All text parts, joined by newlines."""
        parts = (part for part in self.content if isinstance(part, dict) and part.get("type") == "text")
        return "\n".join(str(part.get("text", "")) for part in parts)


class CallSelector(ProjectMessage):
    """Id of the wanted call."""

    run_id: RunId


class CallCancelled(Message):
    """Result of a cancellation."""

    run_id: RunId
    ending: bool
    """True if the call is being ended; its caller gets an error result. False if no such call is under way."""


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
    is_read=True,
)
CALL_TOOL: Final = Endpoint(
    service=SERVICE,
    name="call_tool",
    request=CallTool,
    reply=ToolCalled,
    summary="Call a tool of any type: a builtin tool, a tool of an MCP server, or an action of a skill.",
    raises=tuple(
        dict.fromkeys(
            (
                *skill_runs.RUN_SKILL.raises,
                ErrorCode.NOT_CALLABLE,
                ErrorCode.APPROVAL_REQUIRED,
                ErrorCode.VECTOR_STORE_UNAVAILABLE,
            )
        )
    ),
    idempotent=False,
    timeout_s=skill_runs.RUN_SKILL.timeout_s,
    example={"id": "builtin:calculate", "arguments": {"expression": "(1 + 2) * 3"}},
)
CANCEL_CALL_SIGNALS: Final = "skillbus.ctl.call.cancel.*"
"""Subjects on which replicas of the agent tell each other to end a call; the last token is the call's `run_id`."""
CANCEL_CALL: Final = Endpoint(
    service=SERVICE,
    name="cancel_call",
    request=CallSelector,
    reply=CallCancelled,
    summary="Cancel a call that was made with a `run_id`, on whichever replica it is under way.",
    example={"run_id": "0" * 32},
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
