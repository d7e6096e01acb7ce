"""A builtin tool: what it is, what it takes, and what it does."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolType

ID_PREFIX: Final = "builtin:"


class Arguments(BaseModel):
    """What a tool takes. Its JSON Schema is what the catalogue tells of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers: for a model to read, and for a program."""

    text: str
    structured: JsonValue = None


class BuiltinTool(Protocol):
    """One tool, whatever it takes."""

    @property
    def description(self) -> ToolDescription:
        """As the catalogue has it."""
        ...

    async def call(self, project: str, arguments: Mapping[str, JsonValue]) -> Answer:
        """Raises ArgumentsInvalidError and ToolFailedError."""
        ...


@dataclass(frozen=True, slots=True)
class About:
    """What is said of a tool: English and Chinese, one sentence each."""

    name: str
    english: str
    chinese: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]
    """Requests that it answers, in both languages."""


@dataclass(frozen=True, slots=True)
class Builtin(Generic[ArgumentsT]):
    """A tool made of a function."""

    about: About
    takes: type[ArgumentsT]
    run: Callable[[str, ArgumentsT], Awaitable[Answer]]
    """Given the project and the arguments."""

    @property
    def description(self) -> ToolDescription:
        return ToolDescription(
            id=ID_PREFIX + self.about.name,
            name=self.about.name,
            description=f"{self.about.english} {self.about.chinese}",
            tool_type=ToolType.BUILTIN,
            tags=self.about.tags,
            parameters=parameters_of(self.takes),
            examples=self.about.examples,
            provider="skillbus",
            source=BUILTIN_SOURCE,
        )

    async def call(self, project: str, arguments: Mapping[str, JsonValue]) -> Answer:
        return await self.run(project, parsed(self.takes, arguments))


def parsed(takes: type[ArgumentsT], arguments: Mapping[str, JsonValue]) -> ArgumentsT:
    """Raises ArgumentsInvalidError at the first argument that does not fit."""
    try:
        return takes.model_validate(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ArgumentsInvalidError(first["msg"], place(first["loc"])) from None


def place(location: tuple[int | str, ...]) -> str:
    """Where an argument is, like `$.path`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in location)


def parameters_of(takes: type[Arguments]) -> dict[str, JsonValue]:
    """The JSON Schema of a tool's arguments, without the titles that pydantic makes of names."""
    schema: dict[str, JsonValue] = takes.model_json_schema()
    return {key: _untitled(value) if key == "properties" else value for key, value in schema.items() if key in _KEPT}


_KEPT: Final = ("type", "properties", "required", "additionalProperties")


def _untitled(value: JsonValue) -> JsonValue:
    """Properties without their titles; a property may itself be called `title`."""
    properties = value if isinstance(value, dict) else {}
    return {
        name: {key: said for key, said in about.items() if key != "title"} if isinstance(about, dict) else about
        for name, about in properties.items()
    }
