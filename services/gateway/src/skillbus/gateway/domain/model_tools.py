"""Found tools as function schemas for a model, in the formats of OpenAI, Anthropic and MCP."""

from typing import Final

from pydantic import JsonValue

from skillbus.contracts.http import ToolFormat
from skillbus.contracts.indexer.tool_functions import ToolFunction

DESCRIPTION_CHARACTERS: Final = 1024
"""Longest description that OpenAI accepts."""
DESTRUCTIVE: Final[dict[str, JsonValue]] = {"destructiveHint": True}
"""MCP's annotations of a tool whose calls need the approval of a person."""


def make_schema(name: str, function: ToolFunction, form: ToolFormat) -> dict[str, JsonValue]:
    """Return the schema of a function under a name in a format."""
    parameters: JsonValue = {"type": "object", "properties": {}, **function.parameters}
    description = function.description[:DESCRIPTION_CHARACTERS]
    if form is ToolFormat.OPENAI:
        named: JsonValue = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": named}
    schema_key = "input_schema" if form is ToolFormat.ANTHROPIC else "inputSchema"
    schema: dict[str, JsonValue] = {"name": name, "description": description, schema_key: parameters}
    if form is ToolFormat.MCP and function.requires_approval:
        schema["annotations"] = DESTRUCTIVE
    return schema
