"""Tools as functions that a model can call: the descriptions and parameters of many tools in one request."""

from typing import Final

from pydantic import Field, JsonValue

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer.tools import ToolId
from skillbus.contracts.message import Message, ProjectMessage

MAX_DESCRIBED: Final = 100
"""Most tools of one request: the most hits of one search."""


class DescribeTools(ProjectMessage):
    """Tools to describe."""

    ids: tuple[ToolId, ...] = Field(min_length=1, max_length=MAX_DESCRIBED)


class ToolFunction(Message):
    """Function that a model can call: a tool, or one action of a skill."""

    id: str
    """Id of the tool. `call_tool` takes it."""
    action: str | None = None
    """Action of a skill. Absent for its default action and for other tools."""
    description: str
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON Schema of the arguments. Empty if the tool declares none."""
    requires_approval: bool = False
    """True if an agent may call it only when a person approves the call."""


class ToolsDescribed(Message):
    """Functions of the tools, in the order of the request."""

    functions: tuple[ToolFunction, ...]
    """A skill has one function for each action. Tools that are gone, disabled or in quarantine have none."""
    left_out: tuple[str, ...] = ()
    """Last ids of the request, whose functions do not fit into the reply. Ask for them again."""


class MeasureTools(ProjectMessage):
    """Project whose tools are measured."""


class ToolsMeasured(Message):
    """Size of all tools of a project that a model could be shown."""

    tools: int
    """Active tools that can be called."""
    definition_bytes: int
    """Bytes of the JSON of all their functions."""


DESCRIBE_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="describe_tools",
    request=DescribeTools,
    reply=ToolsDescribed,
    summary="Return the functions that a model can call of up to 100 tools and skills.",
    is_read=True,
    example={"ids": ["skill:calculate", "builtin:calculate"]},
)
MEASURE_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="measure_tools",
    request=MeasureTools,
    reply=ToolsMeasured,
    summary="Return the number of callable tools of a project, and the size of all their definitions.",
    is_read=True,
    timeout_s=30.0,
)
