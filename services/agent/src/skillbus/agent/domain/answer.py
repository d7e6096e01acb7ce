"""What a tool answered, whoever it is."""

from dataclasses import dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a call."""

    text: str = ""
    """Its text parts; why it failed, if it did."""
    content: tuple[JsonValue, ...] = ()
    """All parts as MCP has them; empty where `text` and `structured` say all."""
    structured: JsonValue = None
    is_error: bool = False
    truncated: bool = False
    """Whether something was left out for its size."""
