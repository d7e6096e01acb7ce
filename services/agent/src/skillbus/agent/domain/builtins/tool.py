"""Builtin tools: a description, typed arguments, and a function; and all of them by name."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

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


class BuiltinTool(Protocol):
    """A builtin tool with arguments of any type."""

    @property
    def description(self) -> ToolDescription:
        """The description for the catalogue."""

    async def call(self, project: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """Run the tool. Raises ArgumentsInvalidError and BuiltinFailedError."""


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
class FunctionTool(Generic[ArgumentsT]):
    """A builtin tool made of a function that takes the project and the arguments."""

    profile: BuiltinProfile
    takes: type[ArgumentsT]
    run: Callable[[str, ArgumentsT], Awaitable[ToolAnswer]]

    @property
    def description(self) -> ToolDescription:
        schema = self.takes.model_json_schema()
        for about in schema["properties"].values():
            about.pop("title", None)  # pydantic derives it from the name
        return ToolDescription(
            id=ID_PREFIX + self.profile.name,
            name=self.profile.name,
            description=f"{self.profile.english} {self.profile.chinese}",
            tool_type=ToolType.BUILTIN,
            tags=self.profile.tags,
            parameters={key: value for key, value in schema.items() if key in _SCHEMA_KEYWORDS},
            examples=self.profile.examples,
            provider="skillbus",
            source=BUILTIN_SOURCE,
        )

    async def call(self, project: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        try:
            parsed = self.takes.model_validate(dict(arguments))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in first["loc"])
            raise ArgumentsInvalidError(first["msg"], f"${path}") from None
        return await self.run(project, parsed)


class BuiltinTools:
    """All builtin tools except those that are switched off."""

    def __init__(self, tools: Iterable[BuiltinTool]) -> None:
        self._tools = {tool.description.name: tool for tool in sorted(tools, key=lambda tool: tool.description.name)}

    def describe(self) -> tuple[ToolDescription, ...]:
        """Return the descriptions for the catalogue, ordered by name. Ids are `builtin:<name>`."""
        return tuple(tool.description for tool in self._tools.values())

    async def call(self, project: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """Call a tool with arguments that fit its `parameters`. The caller sets the time limit.

        A tool that cannot do its work answers `ToolAnswer(is_error=True, text=...)`.

        Raises:
            ToolUnknownError: No builtin tool has this name.
            ArgumentsInvalidError: The arguments fit the schema but make no sense.
            RequestError: Another service that the tool needs failed.
        """
        if (tool := self._tools.get(name)) is None:
            raise ToolUnknownError(f"there is no builtin tool {name[:100]!r}; there are {', '.join(self._tools)}")
        try:
            return await tool.call(project, arguments)
        except BuiltinFailedError as error:
            return ToolAnswer(text=str(error), is_error=True)
