"""The catalogue of tools, whatever their kind, as the indexer keeps it: what the index of tools is made from."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints, ValidationInfo, field_validator

from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, JsonObject, Message, Project


class ToolType(StrEnum):
    """Kind of a tool. It tells how the tool is called."""

    MCP = "mcp"
    """Called with `call_tool`: its MCP server answers."""
    BUILTIN = "builtin"
    """Called with `call_tool`: the agent answers."""
    SKILL = "skill"
    """Run with `run_skill`."""
    EXTERNAL = "external"
    """Described by others. skillbus finds it and cannot call it."""


class ToolState(StrEnum):
    """Whether a tool can be found and called."""

    ACTIVE = "active"
    DISABLED = "disabled"
    """By an operator."""
    QUARANTINED = "quarantined"
    """It changed, or says something suspicious: an operator has to accept it first."""


ToolId = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^\S(.*\S)?$"), WITHOUT_NUL]
"""Unique in a project. `skill:<name>`, `mcp:<server>/<tool>` and `builtin:<name>` are given by skillbus."""
ToolSource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
"""Who describes a tool: `mcp:<server>`, `builtin`, `skills`, or a name that an importer chose."""
SKILLS_SOURCE: Final = "skills"
BUILTIN_SOURCE: Final = "builtin"
MCP_SOURCE_PREFIX: Final = "mcp:"
IMPORTED_SOURCE: Final = "import"
"""Where a description does not say."""
MAX_TOOLS: Final = 500
"""Of one `put_tools`."""
MAX_IDS: Final = 2_000


ToolName = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), WITHOUT_NUL]


class ToolDescription(Message):
    """A tool as others describe it; the fields of a line that is imported."""

    id: ToolId
    name: ToolName
    description: Annotated[str, StringConstraints(max_length=8_192), WITHOUT_NUL] = ""
    tags: tuple[Annotated[str, StringConstraints(max_length=100), WITHOUT_NUL], ...] = Field(default=(), max_length=100)
    parameters: JsonObject | None = None
    """JSON Schema of the arguments; at most 64 KiB, and 64 levels."""
    examples: tuple[Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL], ...] = Field(
        default=(), max_length=50
    )
    """Questions that the tool answers, in a user's words."""
    provider: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] = ""
    source: ToolSource = IMPORTED_SOURCE
    tool_type: ToolType = Field(default=ToolType.EXTERNAL, validate_default=True)
    """Follows from `source`, whatever a description says: `mcp` for `mcp:<server>`, `builtin` for `builtin`, `skill`
    for `skills`, and `external` for every other source."""
    metadata: JsonObject = Field(default_factory=dict)
    """Anything else; at most 16 KiB, and 64 levels; given back with each hit."""

    @field_validator("tool_type")
    @classmethod
    def _derive_tool_type(cls, given: ToolType, info: ValidationInfo) -> ToolType:
        source = info.data.get("source")
        if source is None:  # it is invalid, which is an error of its own
            return given
        if source.startswith(MCP_SOURCE_PREFIX):
            return ToolType.MCP
        return {BUILTIN_SOURCE: ToolType.BUILTIN, SKILLS_SOURCE: ToolType.SKILL}.get(source, ToolType.EXTERNAL)


class ToolFinding(Message):
    """Something that an operator should know of a tool."""

    code: str
    """`instructions_to_the_model`, `hidden_characters`, `description_cut`, `schema_invalid`, and others."""
    message: str
    where: str = ""
    """The field it is about."""


class ToolFieldChange(Message):
    """How a field of a quarantined tool differs from what was accepted."""

    field: str
    before: JsonValue
    after: JsonValue


class CatalogueTool(Message):
    """A tool as the catalogue records it."""

    project: Project = DEFAULT_PROJECT
    tool: ToolDescription
    """As it was accepted: what is searched and called."""
    state: ToolState = ToolState.ACTIVE
    digest: str
    """SHA-256 of `tool`, hex: the same digest, the same tool."""
    findings: tuple[ToolFinding, ...] = ()
    pending: ToolDescription | None = None
    """What a quarantined tool would become; absent for one that is quarantined since it came."""
    pending_digest: str | None = None
    changes: tuple[ToolFieldChange, ...] = ()
    """`pending` beside `tool`."""
    created_at: datetime
    updated_at: datetime


class PutTools(Message):
    """Tools to describe, new ones or known ones again. Each is taken or refused by itself."""

    project: Project = DEFAULT_PROJECT
    tools: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_TOOLS)
    """Each a `ToolDescription`; one that is not is refused, and the others are taken."""
    source: ToolSource | None = None
    """Of all of them, whatever they say themselves."""
    review_changes: bool = False
    """Whether a known tool that is described otherwise, or a suspicious one, waits for an operator to accept it."""


class ToolPutOutcome(StrEnum):
    """What became of a description."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"


class ToolPut(Message):
    """What became of one description."""

    id: str | None
    """Absent where the description has none that can be read."""
    outcome: ToolPutOutcome
    error: str | None = None
    """Why it was rejected."""
    findings: tuple[ToolFinding, ...] = ()


class ToolsPut(Message):
    """What became of each description, in the order of the request."""

    results: tuple[ToolPut, ...]
    indexed: bool
    """Whether search knows all of them by now; if not, it will when the store or the embedder is back."""


class RemoveTools(Message):
    """Tools to take out of the catalogue: some, or all of a source. Skills are uninstalled instead."""

    project: Project = DEFAULT_PROJECT
    ids: tuple[ToolId, ...] = Field(default=(), max_length=MAX_IDS)
    source: ToolSource | None = None
    """Only tools of this source; without `ids`, all of it."""


class ToolsRemoved(Message):
    """The tools that were there."""

    ids: tuple[str, ...]


class GetTool(Message):
    """One tool."""

    project: Project = DEFAULT_PROJECT
    id: ToolId


class ListTools(Message):
    """A page of the catalogue, skills among the tools, ordered by id."""

    project: Project = DEFAULT_PROJECT
    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = None
    """The last id of the page before."""
    tool_types: tuple[ToolType, ...] = Field(default=(), max_length=4)
    states: tuple[ToolState, ...] = Field(default=(), max_length=3)
    source: ToolSource | None = None
    tag: str | None = None
    text: str | None = Field(default=None, max_length=200)
    """Only tools with this in their name or description, whatever the case."""


class ToolSummary(Message):
    """A tool in a list."""

    id: str
    name: str
    description: str
    """The first 200 characters."""
    tool_type: ToolType
    source: str
    tags: tuple[str, ...] = ()
    state: ToolState
    findings: int
    updated_at: datetime


class ToolsListed(Message):
    """A page of tools; `next` is the `after` of the next one."""

    tools: tuple[ToolSummary, ...]
    total: int
    """Of all pages."""
    next: str | None = None


class AcceptTool(Message):
    """What waits in quarantine is accepted: as it was looked at, and not as it may have become since."""

    project: Project = DEFAULT_PROJECT
    id: ToolId
    digest: str
    """`pending_digest`, or `digest` of a tool that is quarantined since it came."""


class SetToolState(Message):
    """A tool is disabled or enabled."""

    project: Project = DEFAULT_PROJECT
    id: ToolId
    enabled: bool


class AuditIndex(Message):
    """Whether catalogue, knowledge base, vectors and packages agree."""

    project: Project | None = None
    """All when absent."""
    fix: bool = False


class AuditDifference(Message):
    """A kind of disagreement."""

    kind: str
    """`not_indexed`, `indexed_otherwise`, `indexed_only`, `package_missing`, `not_callable`, `not_catalogued`; of
    knowledge `knowledge_not_indexed`, `knowledge_indexed_otherwise`, `knowledge_indexed_only`."""
    ids: tuple[str, ...]
    """As `<project>/<tool id>`, of knowledge `<project>/<item id>`; the first hundred."""
    count: int
    fixed: int = 0


class IndexAudited(Message):
    """What an audit of the index found. It agrees when there are no differences."""

    catalogued: int
    """Tools that are to be found: those that are active."""
    inactive: int
    """Disabled or quarantined."""
    indexed: int
    """Points of the index of tools."""
    knowledge: int | None = None
    """Active items of knowledge; absent when record or index of them cannot be had."""
    knowledge_indexed: int | None = None
    """Points of the index of knowledge."""
    knowledge_problem: str | None = None
    """Why knowledge could not be compared."""
    differences: tuple[AuditDifference, ...] = ()


class ToolHeld(Message):
    """A tool has to be accepted before it is found again."""

    project: Project
    id: str
    source: str
    digest: str
    reason: str


_TOOL_NOT_FOUND = (ErrorCode.NOT_FOUND,)

PUT_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="put_tools",
    request=PutTools,
    reply=ToolsPut,
    summary="Describe tools, up to 500 at a time; what did not change is not embedded again.",
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
)
REMOVE_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="remove_tools",
    request=RemoveTools,
    reply=ToolsRemoved,
    summary="Take tools out of the catalogue and the index.",
    timeout_s=60.0,
    example={"ids": ["weather.forecast"]},
)
GET_TOOL: Final = Endpoint(
    service=SERVICE,
    name="get_tool",
    request=GetTool,
    reply=CatalogueTool,
    summary="One tool of the catalogue, with what is found suspicious in it and what it would become.",
    raises=_TOOL_NOT_FOUND,
    example={"id": "skill:calculate"},
)
LIST_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="list_tools",
    request=ListTools,
    reply=ToolsListed,
    summary="A page of the catalogue, whatever the kind of tool.",
    example={"limit": 10},
)
ACCEPT_TOOL: Final = Endpoint(
    service=SERVICE,
    name="accept_tool",
    request=AcceptTool,
    reply=CatalogueTool,
    summary="Accept a quarantined tool as it is now described.",
    raises=(*_TOOL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"id": "mcp:files/read_file", "digest": "0" * 64},
)
SET_TOOL_STATE: Final = Endpoint(
    service=SERVICE,
    name="set_tool_state",
    request=SetToolState,
    reply=CatalogueTool,
    summary="Disable or enable a tool, skills too: a disabled one is neither found nor called.",
    raises=(*_TOOL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"id": "skill:calculate", "enabled": True},
)
AUDIT_INDEX: Final = Endpoint(
    service=SERVICE,
    name="audit_index",
    request=AuditIndex,
    reply=IndexAudited,
    summary="Compare catalogue, knowledge base, vectors and packages, and make them agree if asked to.",
    timeout_s=120.0,
    example={"fix": False},
)
TOOL_QUARANTINED: Final = Event(
    SERVICE, "tool", "quarantined", ToolHeld, "A tool has to be accepted before it is found again."
)
