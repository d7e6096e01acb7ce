"""Builtin tools: a description, typed arguments, and a function; and all of them by name."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from skillbus.agent.domain.errors import ArgumentsInvalidError, BuiltinFailedError, ToolUnknownError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.agent.tool_calls import CallTool, ToolCalled
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolType
from skillbus.contracts.validation import describe_error

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


TellCall: TypeAlias = Callable[[CallTool, ToolCalled, RequestError | None], None]
"""Takes a call of a program that is done, and its result; the error, if the call was not made."""


@dataclass(frozen=True, slots=True)
class OuterCall:
    """Call of a tool that calls others, with the rights of this call."""

    project: str
    run_id: str
    timeout_s: float | None
    """Longest time that its caller grants it, if that is less than its own limit."""
    within_s: float
    """Time until its caller stops waiting."""
    cancelled: asyncio.Event
    stream: bool
    call_tool: Callable[[CallTool, str, float, asyncio.Event], Awaitable[ToolAnswer]]
    """Calls another tool, with a run id, within a time, until an event is set. Raises what `ToolCaller.call` does."""
    tell_call: TellCall | None = None
    """Told of each call of another tool. None if nobody follows."""


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """A builtin tool with arguments of any type."""

    description: ToolDescription
    call: Callable[[str, Mapping[str, JsonValue]], Awaitable[ToolAnswer]]
    """Runs the tool for a project, with arguments that fit its `parameters`. The caller sets the time limit.

    A tool that cannot do its work answers `ToolAnswer(is_error=True, text=...)`. Raises ArgumentsInvalidError if the
    arguments fit the schema but make no sense, and RequestError if another service that the tool needs failed.
    """
    call_others: Callable[[OuterCall, Mapping[str, JsonValue]], Awaitable[ToolAnswer]] | None = None
    """Used in place of `call` for a tool that calls others. It ends by itself in time, and when it is cancelled."""


def make_tool(
    profile: BuiltinProfile, takes: type[ArgumentsT], run: Callable[[str, ArgumentsT], Awaitable[ToolAnswer]]
) -> BuiltinTool:
    """Make a builtin tool of a function that takes the project and the arguments."""

    async def call(project: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        parsed = _parse_arguments(takes, arguments)
        try:
            return await run(project, parsed)
        except BuiltinFailedError as error:
            return ToolAnswer(text=str(error), is_error=True)

    return BuiltinTool(_describe_tool(profile, takes), call)


def make_calling_tool(
    profile: BuiltinProfile, takes: type[ArgumentsT], run: Callable[[OuterCall, ArgumentsT], Awaitable[ToolAnswer]]
) -> BuiltinTool:
    """Make a builtin tool that calls others, of a function that takes its own call and the arguments."""

    async def call_others(outer: OuterCall, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        return await run(outer, _parse_arguments(takes, arguments))

    async def call(_project: str, _arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        raise TypeError(f"{profile.name} calls other tools: use call_others")

    return BuiltinTool(_describe_tool(profile, takes), call, call_others)


def _describe_tool(profile: BuiltinProfile, takes: type[BuiltinArguments]) -> ToolDescription:
    schema = takes.model_json_schema()
    for about in schema["properties"].values():
        about.pop("title", None)  # pydantic derives it from the name
    return ToolDescription(
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


def _parse_arguments(takes: type[ArgumentsT], arguments: Mapping[str, JsonValue]) -> ArgumentsT:
    try:
        return takes.model_validate(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in first["loc"])
        raise ArgumentsInvalidError(describe_error(first), f"${path}") from None


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
