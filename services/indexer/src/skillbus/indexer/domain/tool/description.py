"""Descriptions of tools from others, parsed one by one, so that a bad one does not affect the others."""

import json
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.common.validation import describe_problems
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, MCP_SOURCE_PREFIX, SKILLS_SOURCE, ToolDescription
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX

_PARAMETERS_BYTES: Final = 64 * 1024
_METADATA_BYTES: Final = 16 * 1024
_REPORTED_PROBLEMS: Final = 3
_BUILTIN_ID_PREFIX: Final = "builtin:"


class DescriptionError(ValueError):
    """The description is refused; the message says why."""


def parse_description(value: JsonValue, source: str | None) -> ToolDescription:
    """Parse a description. `source` replaces the source that it names.

    Sources reserved by skillbus are accepted only as `source`: a line of a file cannot claim to be a server's tool.

    Raises:
        DescriptionError: It is not a valid description.
    """
    if not isinstance(value, dict):
        raise DescriptionError("is not a JSON object")
    try:
        tool = ToolDescription.model_validate(value if source is None else {**value, "source": source})
    except ValidationError as error:
        raise DescriptionError(describe_problems(error, _REPORTED_PROBLEMS)) from None
    _check_size("parameters", tool.parameters, _PARAMETERS_BYTES)
    _check_size("metadata", tool.metadata, _METADATA_BYTES)
    if source is None and (tool.source in {SKILLS_SOURCE, BUILTIN_SOURCE} or tool.source.startswith(MCP_SOURCE_PREFIX)):
        raise DescriptionError(f"source: {tool.source!r} is reserved by skillbus; choose another name")
    _check_id(tool)
    return tool


def read_id(value: JsonValue) -> str | None:
    """Return the id of a value that may not be a description; None if it has none."""
    found = value.get("id") if isinstance(value, dict) else None
    return found[:300] if isinstance(found, str) else None


def _check_id(tool: ToolDescription) -> None:
    if tool.source == SKILLS_SOURCE or tool.id.startswith(SKILL_ID_PREFIX):
        raise DescriptionError("id: `skill:` is for skills, which are installed; choose another id")
    is_mcp = tool.source.startswith(MCP_SOURCE_PREFIX)
    if is_mcp and not tool.id.startswith(f"{tool.source}/"):
        raise DescriptionError(f"id: a tool of {tool.source} is `{tool.source}/<name>`")
    if not is_mcp and tool.id.startswith(MCP_SOURCE_PREFIX):
        raise DescriptionError("id: `mcp:` is for tools of registered MCP servers; choose another id")
    if (tool.source == BUILTIN_SOURCE) != tool.id.startswith(_BUILTIN_ID_PREFIX):
        raise DescriptionError("id: `builtin:` is for builtin tools, and they have such ids; choose another id")


def _check_size(field: str, value: JsonValue, limit_bytes: int) -> None:
    if not value:
        return
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        raise DescriptionError(f"{field}: contains a number that JSON does not have, such as NaN") from None
    if size > limit_bytes:
        raise DescriptionError(f"{field}: {size} bytes are over the limit of {limit_bytes}: send less")
