"""Found tools as function schemas for a model, in the formats of OpenAI, Anthropic and MCP.

Models know a tool by a name of at most 64 letters, digits, `_` and `-`. `mcp:files/read_file` becomes
`mcp__files__read_file`. An id that such a name cannot hold becomes a readable part with a hash of the id, and only the
`names` of the reply lead back to it.
"""

import asyncio
import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolFormat, ToolReference
from skillbus.contracts.indexer.skills import GET_SKILL, SkillSelector
from skillbus.contracts.indexer.tools import GET_TOOL, GetTool, ToolType
from skillbus.contracts.retriever.tool_search import ToolHit
from skillbus.gateway.domain.ports import BusCaller

NAME_CHARACTERS: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARACTERS}}}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_BETWEEN: Final = "__"
_HASHED: Final = "x"
"""First part of a name with a hash. No type of tool is called so."""
_HASH_CHARACTERS: Final = 26
"""130 bits."""
_DESCRIPTION_CHARACTERS: Final = 1024
"""Longest description that OpenAI accepts."""


@dataclass(frozen=True, slots=True)
class ModelFunction:
    """Function that a model can call: a tool, or one action of a skill."""

    reference: ToolReference
    description: str
    parameters: Mapping[str, JsonValue]

    def to_schema(self, form: ToolFormat) -> dict[str, JsonValue]:
        """Return the schema in a format."""
        name = encode_name(self.reference)
        parameters: JsonValue = {"type": "object", "properties": {}, **self.parameters}
        description = self.description[:_DESCRIPTION_CHARACTERS]
        if form is ToolFormat.OPENAI:
            function: JsonValue = {"name": name, "description": description, "parameters": parameters}
            return {"type": "function", "function": function}
        schema_key = "input_schema" if form is ToolFormat.ANTHROPIC else "inputSchema"
        return {"name": name, "description": description, schema_key: parameters}


def encode_name(tool: ToolReference) -> str:
    """Return the name of a tool for a model. Different tools have different names."""
    kind, _, rest = tool.id.partition(":")
    words = [kind, *(rest.split("/", 1) if kind == ToolType.MCP else [rest])]
    simple = _BETWEEN.join(words if tool.action is None else [*words, tool.action])
    if _NAME.fullmatch(simple) and decode_name(simple) == tool:
        return simple
    key = f"{tool.id}\0{tool.action or ''}".encode("utf-8", "surrogatepass")
    digest = b32encode(hashlib.sha256(key).digest()).decode().lower()[:_HASH_CHARACTERS]
    free = NAME_CHARACTERS - len(_HASHED) - 2 * len(_BETWEEN) - _HASH_CHARACTERS
    readable = _NOT_IN_NAMES.sub("_", _BETWEEN.join([*words[1:], tool.action or ""])).strip("_")[:free]
    return _BETWEEN.join((_HASHED, readable, digest))


def decode_name(name: str) -> ToolReference | None:
    """Return the tool that a name was made from; None for a name with a hash."""
    kind, _, rest = name.partition(_BETWEEN)
    first, between, second = rest.partition(_BETWEEN)
    if kind == ToolType.BUILTIN and rest:
        return ToolReference(id=f"{kind}:{rest}")
    if kind == ToolType.SKILL and first:
        return ToolReference(id=f"{kind}:{first}", action=second if between else None)
    if kind == ToolType.MCP and first and second:
        return ToolReference(id=f"{kind}:{first}/{second}")
    return None


class ModelToolFinder:
    """Reads the schemas of hits from the catalogue."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def describe_hits(self, hits: Iterable[ToolHit], project: str) -> tuple[ModelFunction, ...]:
        """Return the functions of the callable hits, best hit first. Each action of a skill is a function.

        Raises:
            RequestError: The catalogue did not reply.
        """
        described = await asyncio.gather(*(self._describe_hit(hit, project) for hit in hits if hit.callable))
        return tuple(function for functions in described for function in functions)

    async def _describe_hit(self, hit: ToolHit, project: str) -> Sequence[ModelFunction]:
        try:
            if hit.tool_type is ToolType.SKILL:
                return await self._describe_skill(hit, project)
            tool = (await self._caller.call(GET_TOOL, GetTool(project=project, id=hit.id))).tool
        except RequestError as error:
            if error.code in {ErrorCode.NOT_FOUND, ErrorCode.SKILL_NOT_FOUND}:  # removed since the search
                return ()
            raise
        return (ModelFunction(ToolReference(id=tool.id), tool.description, tool.parameters or {}),)

    async def _describe_skill(self, hit: ToolHit, project: str) -> Sequence[ModelFunction]:
        skill = await self._caller.call(GET_SKILL, SkillSelector(project=project, name=hit.id.partition(":")[2]))
        functions = list[ModelFunction]()
        for entry in skill.entry_points:
            is_default = entry.action == skill.default_action
            about = f"{skill.description}\n{entry.description}" if entry.description else skill.description
            if not is_default and not entry.description:
                about = f"{skill.description}\nAction: {entry.action}"
            reference = ToolReference(id=hit.id, action=None if is_default else entry.action)
            functions.append(ModelFunction(reference, about, entry.input_schema or {}))
        return functions
