"""The catalogue of tools of every type, kept by the indexer. The index of tools is built from it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints, ValidationInfo, field_validator

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import WITHOUT_NUL, JsonObject, Message, Project, ProjectMessage


class ToolType(StrEnum):
    """Type of a tool. It decides how the tool is called."""

    MCP = "mcp"
    """Its MCP server answers `call_tool`."""
    BUILTIN = "builtin"
    """The agent answers `call_tool`."""
    SKILL = "skill"
    """The sandbox runs it for `call_tool`, or for `run_skill`."""
    EXTERNAL = "external"
    """Described by others. skillbus finds it and cannot call it."""


class ToolState(StrEnum):
    """State of a tool in the catalogue. Only active tools are found and called."""

    ACTIVE = "active"
    DISABLED = "disabled"
    """Switched off by an operator."""
    QUARANTINED = "quarantined"
    """Changed or suspicious. An operator must accept it first."""


ToolId = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^\S(.*\S)?$"), WITHOUT_NUL]
"""Unique in a project. skillbus assigns `skill:<name>`, `mcp:<server>/<tool>` and `builtin:<name>`."""
ToolSource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
SKILLS_SOURCE: Final = "skills"
BUILTIN_SOURCE: Final = "builtin"
MCP_SOURCE_PREFIX: Final = "mcp:"
IMPORTED_SOURCE: Final = "import"
"""Source of descriptions that name none."""
MAX_TOOLS: Final = 500
"""Most tools of one `put_tools` request."""
MAX_IDS: Final = 2_000
"""Most ids of one `remove_tools` request."""
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), WITHOUT_NUL]


class ToolDescription(Message):
    """Description of a tool by its provider; also one line of an import."""

    id: ToolId
    """Id of the tool, unique in its project."""
    name: ToolName
    """Short name, shown to the model."""
    description: Annotated[str, StringConstraints(max_length=8_192), WITHOUT_NUL] = ""
    """Purpose of the tool and when to use it. Search relies on this text."""
    tags: tuple[Annotated[str, StringConstraints(max_length=100), WITHOUT_NUL], ...] = Field(default=(), max_length=100)
    """Keywords. Searches and lists can filter by them."""
    parameters: JsonObject | None = None
    """JSON Schema of the arguments, at most 64 KiB."""
    examples: tuple[Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL], ...] = Field(
        default=(), max_length=50
    )
    """Example questions that the tool answers, in a user's words."""
    provider: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] = ""
    """Organization or server that offers the tool."""
    source: ToolSource = IMPORTED_SOURCE
    """Origin of this description: `mcp:<server>`, `builtin`, `skills`, or a name that an importer chose."""
    tool_type: ToolType = Field(default=ToolType.EXTERNAL, validate_default=True)
    """Type, always derived from `source`: `mcp` for `mcp:<server>`, `builtin` for `builtin`,
    `skill` for `skills`, and `external` for every other source."""
    metadata: JsonObject = Field(default_factory=dict)
    """Additional data, at most 16 KiB. Every hit returns it."""

    @field_validator("tool_type")
    @classmethod
    def _derive_tool_type(cls, given: ToolType, info: ValidationInfo) -> ToolType:
        source = info.data.get("source")
        if source is None:  # it is invalid and reported as such
            return given
        if source.startswith(MCP_SOURCE_PREFIX):
            return ToolType.MCP
        return {BUILTIN_SOURCE: ToolType.BUILTIN, SKILLS_SOURCE: ToolType.SKILL}.get(source, ToolType.EXTERNAL)


class ToolFinding(Message):
    """Remark about a tool, for operators."""

    code: str
    """`instructions_to_the_model`, `hidden_characters`, `description_cut`, `schema_invalid` and others."""
    message: str
    where: str = ""
    """Field that the remark is about."""


class ToolFieldChange(Message):
    """Changed field of a quarantined tool, with its accepted and its pending value."""

    field: str
    before: JsonValue
    after: JsonValue


class CatalogueTool(ProjectMessage):
    """Record of a tool in the catalogue."""

    tool: ToolDescription
    """Accepted description. Searches and calls use it."""
    state: ToolState = ToolState.ACTIVE
    digest: str
    """SHA-256 of `tool`, as `pending_digest` of `pending`. Equal digests mean equal descriptions."""
    findings: tuple[ToolFinding, ...] = ()
    pending: ToolDescription | None = None
    """Description that waits to be accepted. Absent if the tool has been in quarantine since it was added."""
    pending_digest: str | None = None
    changes: tuple[ToolFieldChange, ...] = ()
    """Differences between `tool` and `pending`."""
    requires_approval: bool = False
    """True if an agent may call it only when a person approves the call: by `approval_mark`, or without one because
    its MCP server states `destructiveHint`."""
    approval_mark: bool | None = None
    """Decision of an operator. Absent means that there is none."""
    created_at: datetime
    updated_at: datetime


class PutTools(ProjectMessage):
    """Descriptions of new or known tools. Each is accepted or rejected on its own."""

    tools: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_TOOLS)
    """Values that should each be a `ToolDescription`. An invalid one is rejected; the others are accepted."""
    source: ToolSource | None = None
    """Source of all descriptions. It overrides the `source` of each."""
    review_changes: bool = False
    """True holds changed descriptions of known tools and suspicious descriptions until an operator accepts them."""


class ToolPutOutcome(StrEnum):
    """Result of putting one description."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"


class ToolPut(Message):
    """Result for one description."""

    id: str | None
    """Id of the tool. Absent if the description has no readable id."""
    outcome: ToolPutOutcome
    error: str | None = None
    findings: tuple[ToolFinding, ...] = ()


class ToolsPut(Message):
    """Result for each description, in the order of the request."""

    results: tuple[ToolPut, ...]
    indexed: bool
    """True if search already finds all of them. If false, the indexer adds them when vector store and embedder are
    back."""


class RemoveTools(ProjectMessage):
    """Tools to remove from the catalogue. Skills cannot be removed here; uninstall them."""

    ids: tuple[ToolId, ...] = Field(default=(), max_length=MAX_IDS)
    """Tools to remove. Empty means every tool of `source`."""
    source: ToolSource | None = None
    """Remove only tools of this source."""


class ToolsRemoved(Message):
    """Ids of the tools that existed and were removed."""

    ids: tuple[str, ...]


class GetTool(ProjectMessage):
    """Id of the wanted tool."""

    id: ToolId


class ListTools(ProjectMessage):
    """Query for one page of the catalogue, ordered by id. Skills are listed too."""

    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = None
    tool_types: tuple[ToolType, ...] = Field(default=(), max_length=4)
    states: tuple[ToolState, ...] = Field(default=(), max_length=3)
    source: ToolSource | None = None
    tag: str | None = None
    text: str | None = Field(default=None, max_length=200)
    """List only tools with this text in their name or description, ignoring case."""


class ToolSummary(Message):
    """Tool in a list."""

    id: str
    name: str
    description: str
    """First 200 characters of the description."""
    tool_type: ToolType
    source: str
    tags: tuple[str, ...] = ()
    state: ToolState
    findings: int
    """Number of findings."""
    requires_approval: bool = False
    """True if an agent may call it only when a person approves the call."""
    approval_mark: bool | None = None
    """Decision of an operator about that. Absent means that there is none."""
    updated_at: datetime


class ToolsListed(Message):
    """One page of tools."""

    tools: tuple[ToolSummary, ...]
    total: int
    next: str | None = None


class AcceptTool(ProjectMessage):
    """Approval of a quarantined tool, as the operator saw it."""

    id: ToolId
    digest: str
    """`pending_digest` of the tool, or its `digest` if it has no pending description. The request fails with
    `conflict` if the description has changed since."""


class SetToolState(ProjectMessage):
    """Change of a tool's state."""

    id: ToolId
    enabled: bool


class AuditIndex(Message):
    """Audit of catalogue, knowledge base, devices, commands, vectors and packages."""

    project: Project | None = None
    """Audit only this project. Absent means all projects."""
    fix: bool = False
    """True repairs the differences."""


class AuditDifference(Message):
    """Differences of one kind: how many there are, and how many of them were repaired."""

    kind: str
    """For tools: `not_indexed`, `indexed_otherwise`, `indexed_only`, `package_missing`, `not_callable`,
    `not_catalogued`. For knowledge, devices and commands: `knowledge_not_indexed`, `knowledge_indexed_otherwise`,
    `knowledge_indexed_only`, `device_not_indexed` and so on."""
    ids: tuple[str, ...]
    """First 100 ids, as `<project>/<tool id>`, `<project>/<item id>`, `<project>/<home>/<device id>` or
    `<project>/<command id>`."""
    count: int
    fixed: int = 0


class IndexAudited(Message):
    """Result of an audit of the index. Without differences, the index agrees with the records."""

    catalogued: int
    """Active tools in the catalogue."""
    inactive: int
    """Disabled or quarantined tools."""
    indexed: int
    """Points in the index of tools."""
    knowledge: int | None = None
    """Active knowledge items. Absent if the record or the index of knowledge is not reachable."""
    knowledge_indexed: int | None = None
    """Points in the index of knowledge."""
    knowledge_problem: str | None = None
    """Reason why knowledge could not be compared."""
    devices: int = 0
    """Devices of homes."""
    devices_indexed: int = 0
    """Points in the index of devices."""
    commands: int = 0
    """Commands of the library."""
    commands_indexed: int = 0
    """Points in the index of commands."""
    differences: tuple[AuditDifference, ...] = ()


class ToolHeld(Message):
    """Tool that must be accepted before it is found again."""

    project: Project
    id: str
    source: str
    digest: str
    """SHA-256 of the description that waits, in hexadecimal."""
    reason: str


_TOOL_NOT_FOUND = (ErrorCode.NOT_FOUND,)

PUT_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="put_tools",
    request=PutTools,
    reply=ToolsPut,
    summary="Add or update the descriptions of up to 500 tools. Unchanged tools are not embedded again.",
    stores_data=True,
    timeout_s=60.0,
    example={
        "tools": [
            {
                "id": "weather.forecast",
                "name": "forecast",
                "description": "Weather forecast of a city. 查询城市的天气预报。",
                "tool_type": "builtin",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            }
        ]
    },
    act=AuditedAct(made="results.id", details=("source",)),
)
REMOVE_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="remove_tools",
    request=RemoveTools,
    reply=ToolsRemoved,
    summary="Remove tools from the catalogue and the index.",
    timeout_s=60.0,
    example={"ids": ["weather.forecast"]},
    act=AuditedAct("ids", made="ids", details=("source",)),
)
GET_TOOL: Final = Endpoint(
    service=SERVICE,
    name="get_tool",
    request=GetTool,
    reply=CatalogueTool,
    summary="Return one tool of the catalogue with its findings and its pending description.",
    is_read=True,
    raises=_TOOL_NOT_FOUND,
    example={"id": "skill:calculate"},
)
LIST_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="list_tools",
    request=ListTools,
    reply=ToolsListed,
    summary="List one page of the catalogue, with tools of every type.",
    is_read=True,
    example={"limit": 10},
)
ACCEPT_TOOL: Final = Endpoint(
    service=SERVICE,
    name="accept_tool",
    request=AcceptTool,
    reply=CatalogueTool,
    summary="Accept the description of a quarantined tool.",
    raises=(*_TOOL_NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={"id": "mcp:files/read_file", "digest": "0" * 64},
    act=AuditedAct("id"),
)
SET_TOOL_STATE: Final = Endpoint(
    service=SERVICE,
    name="set_tool_state",
    request=SetToolState,
    reply=CatalogueTool,
    summary="Enable or disable a tool or a skill. A disabled one is neither found nor called.",
    raises=(*_TOOL_NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={"id": "skill:calculate", "enabled": True},
    act=AuditedAct("id", details=("enabled",)),
)
AUDIT_INDEX: Final = Endpoint(
    service=SERVICE,
    name="audit_index",
    request=AuditIndex,
    reply=IndexAudited,
    summary="Compare all records with vectors and packages, and repair the differences on request.",
    timeout_s=120.0,
    example={"fix": False},
    act=AuditedAct(only_with="fix"),
)
TOOL_QUARANTINED: Final = Event(
    SERVICE, "tool", "quarantined", ToolHeld, "A tool must be accepted by an operator before it is found again."
)
