"""Descriptions of tools as others send them: read one by one, so that a bad one does not take the others along."""

import json
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, MCP_SOURCE_PREFIX, SKILLS_SOURCE, ToolDescription
from skillbus.indexer.domain.catalogue.entry import SKILL_ID_PREFIX

_PARAMETERS_BYTES: Final = 64 * 1024
_METADATA_BYTES: Final = 16 * 1024
_SAID: Final = 3
"""Errors of one description that are told."""
_BUILTIN_ID_PREFIX: Final = "builtin:"


class DescriptionError(ValueError):
    """A description that is not taken; says why."""


def read_description(value: JsonValue, source: str | None) -> ToolDescription:
    """A description, of `source` whatever it says itself.

    Only who gives the source for all of them may give one that skillbus keeps to itself: a line of a file cannot make
    itself a tool of a server.

    Raises:
        DescriptionError: It is none.
    """
    if not isinstance(value, dict):
        raise DescriptionError("is no JSON object")
    try:
        tool = ToolDescription.model_validate(value if source is None else {**value, "source": source})
    except ValidationError as error:
        raise DescriptionError(_readable(error)) from None
    _check_size("parameters", tool.parameters, _PARAMETERS_BYTES)
    _check_size("metadata", tool.metadata, _METADATA_BYTES)
    if source is None and _is_kept(tool.source):
        raise DescriptionError(f"source: {tool.source!r} is given by skillbus; choose another name")
    _check_id(tool)
    return tool


def id_of(value: JsonValue) -> str | None:
    """The id of what may be no description; None where none can be read."""
    found = value.get("id") if isinstance(value, dict) else None
    return found[:300] if isinstance(found, str) else None


def _is_kept(source: str) -> bool:
    return source in {SKILLS_SOURCE, BUILTIN_SOURCE} or source.startswith(MCP_SOURCE_PREFIX)


def _check_id(tool: ToolDescription) -> None:
    if tool.source == SKILLS_SOURCE or tool.id.startswith(SKILL_ID_PREFIX):
        raise DescriptionError("id: `skill:` is for skills, which are installed; choose another id")
    of_server = tool.source.startswith(MCP_SOURCE_PREFIX)
    if of_server and not tool.id.startswith(f"{tool.source}/"):
        raise DescriptionError(f"id: a tool of {tool.source} is `{tool.source}/<name>`")
    if not of_server and tool.id.startswith(MCP_SOURCE_PREFIX):
        raise DescriptionError("id: `mcp:` is for tools of registered MCP servers; choose another id")
    if (tool.source == BUILTIN_SOURCE) != tool.id.startswith(_BUILTIN_ID_PREFIX):
        raise DescriptionError("id: `builtin:` is for builtin tools, and they have such ids; choose another id")


def _check_size(field: str, value: JsonValue, limit_bytes: int) -> None:
    if not value:
        return
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        raise DescriptionError(f"{field}: holds a number that JSON does not have, as NaN: send another") from None
    if size > limit_bytes:
        raise DescriptionError(f"{field}: {size} bytes, at most {limit_bytes} are taken: send less")


def _readable(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    said = [f"{'.'.join(str(step)[:50] for step in item['loc'])}: {item['msg']}" for item in errors[:_SAID]]
    more = len(errors) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more > 0 else "")
