"""Builtin tools: a description, typed arguments, and a function; and all of them by name."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from skillbus.agent.domain.errors import ArgumentsInvalidError, BuiltinFailedError, ToolUnknownError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolType

ID_PREFIX: Final = "builtin:"
_SCHEMA_KEYWORDS: Final = ("type", "properties", "required", "additionalProperties")


class BuiltinArguments(BaseModel):
    """Base of the arguments of a tool. Their JSON Schema is shown in the catalogue."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


ArgumentsT = TypeVar("ArgumentsT", bound=BuiltinArguments)


@dataclass(frozen=True, slots=True)
class BuiltinProfile:
    """Texts that describe a tool: one sentence in English and one in Chinese."""

    name: str
    english: str
    chinese: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]
    """Requests that the tool answers, in both languages."""


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """A builtin tool with arguments of any type."""

    description: ToolDescription
    call: Callable[[str, Mapping[str, JsonValue]], Awaitable[ToolAnswer]]
    """Runs the tool for a project, with arguments that fit its `parameters`. The caller sets the time limit.

    A tool that cannot do its work answers `ToolAnswer(is_error=True, text=...)`. Raises ArgumentsInvalidError if the
    arguments fit the schema but make no sense, and RequestError if another service that the tool needs failed.
    """


def make_tool(
    profile: BuiltinProfile, takes: type[ArgumentsT], run: Callable[[str, ArgumentsT], Awaitable[ToolAnswer]]
) -> BuiltinTool:
    """Make a builtin tool of a function that takes the project and the arguments."""
    schema = takes.model_json_schema()
    for about in schema["properties"].values():
        about.pop("title", None)  # pydantic derives it from the name
    description = ToolDescription(
        id=ID_PREFIX + profile.name,
        name=profile.name,
        description=f"{profile.english} {profile.chinese}",
        tool_type=ToolType.BUILTIN,
        tags=profile.tags,
        parameters={key: value for key, value in schema.items() if key in _SCHEMA_KEYWORDS},
        examples=profile.examples,
        provider="skillbus",
        source=BUILTIN_SOURCE,
    )

    async def call(project: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        try:
            parsed = takes.model_validate(dict(arguments))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in first["loc"])
            raise ArgumentsInvalidError(first["msg"], f"${path}") from None
        try:
            return await run(project, parsed)
        except BuiltinFailedError as error:
            return ToolAnswer(text=str(error), is_error=True)

    return BuiltinTool(description, call)


class BuiltinTools:
    """All builtin tools except those that are switched off."""

    def __init__(self, tools: Iterable[BuiltinTool]) -> None:
        self._tools = {tool.description.name: tool for tool in sorted(tools, key=lambda tool: tool.description.name)}

    def describe(self) -> tuple[ToolDescription, ...]:
        """Return the descriptions for the catalogue, ordered by name. Ids are `builtin:<name>`."""
        return tuple(tool.description for tool in self._tools.values())

    def get_tool(self, name: str) -> BuiltinTool:
        if (tool := self._tools.get(name)) is None:
            raise ToolUnknownError(f"there is no builtin tool {name[:100]!r}; there are {', '.join(self._tools)}")
        return tool
