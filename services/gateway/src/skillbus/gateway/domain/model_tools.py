"""Found tools as function schemas for a model, in the formats of OpenAI, Anthropic and MCP."""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.http import ToolFormat
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, DescribeTools, ToolFunction
from skillbus.contracts.retriever.tool_search import ToolHit
from skillbus.gateway.domain.ports import BusCaller

_DESCRIPTION_CHARACTERS: Final = 1024
"""Longest description that OpenAI accepts."""


def make_schema(name: str, function: ToolFunction, form: ToolFormat) -> dict[str, JsonValue]:
    """Return the schema of a function under a name in a format."""
    parameters: JsonValue = {"type": "object", "properties": {}, **function.parameters}
    description = function.description[:_DESCRIPTION_CHARACTERS]
    if form is ToolFormat.OPENAI:
        named: JsonValue = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": named}
    schema_key = "input_schema" if form is ToolFormat.ANTHROPIC else "inputSchema"
    schema: dict[str, JsonValue] = {"name": name, "description": description, schema_key: parameters}
    if form is ToolFormat.MCP and function.requires_approval:
        schema["annotations"] = {"destructiveHint": True}
    return schema


class ModelToolFinder:
    """Reads the functions of hits from the catalogue."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def describe_hits(self, hits: Iterable[ToolHit], project: str) -> Sequence[ToolFunction]:
        """Return the functions of the callable hits, best hit first. Tools that were removed since have none.

        Raises:
            RequestError: The catalogue did not reply.
        """
        wanted = tuple(hit.id for hit in hits if hit.callable)
        functions = list[ToolFunction]()
        while wanted:
            described = await self._caller.call(DESCRIBE_TOOLS, DescribeTools(project=project, ids=wanted))
            functions += described.functions
            wanted = described.left_out
        return functions
