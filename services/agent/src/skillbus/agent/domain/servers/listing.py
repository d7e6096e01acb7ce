"""Converts the tools that a server lists into descriptions for the catalogue. The server is not trusted."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.domain.servers.schema_shape import SCHEMA_BYTES, find_shape_problem
from skillbus.common.prompt_injection import scan_text
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, ToolDescription, ToolFinding, ToolType
from skillbus.contracts.message import check_json

DESCRIPTION_MAX: Final = 8_192
"""Characters of a description that `ToolDescription` accepts."""
_NAME_MAX: Final = 200
_PROVIDER_MAX: Final = 200
_METADATA_BYTES: Final = 4 * 1024
"""Size limit of the title, the annotations and the output schema, each."""
_FINDINGS_MAX: Final = 100
_QUOTED_CHARACTERS: Final = 80
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of `common.characters.has_invisible`, and private-use characters, which look different everywhere."""
_METADATA_FIELDS: Final[Mapping[str, tuple[str, type]]] = {
    "title": ("title", str),
    "annotations": ("annotations", dict),
    "outputSchema": ("output_schema", dict),
}
"""Fields of MCP that are kept: their names in the metadata, and their types."""


@dataclass(frozen=True, slots=True)
class ServerListing:
    """The acceptable tools of a server."""

    tools: tuple[ToolDescription, ...] = ()
    findings: tuple[ToolFinding, ...] = ()
    """The first hundred findings about tools that were refused or cut."""


class _RefusedError(Exception):
    def __init__(self, code: str, name: JsonValue, message: str) -> None:
        super().__init__(message)
        self.finding = ToolFinding(code=code, message=message, where=_quote_name(name))


def make_tool_id(server: str, tool: str) -> str:
    """Return the id of a server's tool in the catalogue."""
    return f"{MCP_SOURCE_PREFIX}{server}/{tool}"


def describe_tools(server: str, provider: str, listed: Iterable[JsonValue]) -> ServerListing:
    """Describe the tools of a server. Of two tools with one name the first counts.

    It scans megabytes if a server sends them: call it in a thread.

    Args:
        server: Name under which the server is registered.
        provider: Name that the server reported when it was first listed.
        listed: The tools as MCP defines them, or anything else that the server sent.
    """
    tools, findings = dict[str, ToolDescription](), list[ToolFinding]()
    for raw in listed:
        try:
            tool, found = _describe_tool(server, provider, raw)
        except _RefusedError as refused:
            findings.append(refused.finding)
            continue
        if tool.name in tools:
            message = "several tools have this name: the first counts"
            findings.append(ToolFinding(code="duplicate_tool", message=message, where=_quote_name(tool.name)))
            continue
        tools[tool.name] = tool
        findings += found
    return ServerListing(tuple(tools.values()), tuple(findings[:_FINDINGS_MAX]))


def _describe_tool(server: str, provider: str, raw: JsonValue) -> tuple[ToolDescription, list[ToolFinding]]:
    if not isinstance(raw, dict):
        raise _RefusedError("tool_malformed", "", f"an entry of the list is not a tool but {type(raw).__name__}")
    name = _check_name(raw.get("name"))
    description, found = _cut_description(name, raw.get("description"))
    tool = ToolDescription(
        id=make_tool_id(server, name),
        name=name,
        description=description,
        tool_type=ToolType.MCP,
        parameters=_check_schema(name, raw.get("inputSchema")),
        provider=_remove_invisible(provider)[:_PROVIDER_MAX],
        source=f"{MCP_SOURCE_PREFIX}{server}",
        metadata=_collect_metadata(server, raw, found),
    )
    return tool, [finding.model_copy(update={"where": _quote_name(name)}) for finding in found]


def _check_name(name: JsonValue) -> str:
    if not isinstance(name, str) or not name.strip():
        raise _RefusedError("name_unusable", name, "the tool has no name")
    if len(name) > _NAME_MAX:
        raise _RefusedError("name_unusable", name, f"the name has {len(name)} characters; the limit is {_NAME_MAX}")
    if name != name.strip() or name != _remove_invisible(name):
        raise _RefusedError("name_unusable", name, "the name has hidden characters, or space around it")
    return name


def _cut_description(name: str, description: JsonValue) -> tuple[str, tuple[ToolFinding, ...]]:
    """Return the description to keep, and findings about the whole text if it had to be cut."""
    if description is None:
        return "", ()
    if not isinstance(description, str):
        raise _RefusedError("tool_malformed", name, f"its description is not a text but {type(description).__name__}")
    text = description.replace("\0", " ")
    if len(text) <= DESCRIPTION_MAX:
        return text, ()
    message = f"the description has {len(text)} characters: the first {DESCRIPTION_MAX} are kept"
    cut = ToolFinding(code="description_cut", message=message, where="description")
    return text[:DESCRIPTION_MAX], (cut, *scan_text(text))


def _check_schema(name: str, schema: JsonValue) -> dict[str, JsonValue]:
    problem = None
    if not isinstance(schema, dict):
        raise _RefusedError("schema_invalid", name, "its inputSchema is not an object")
    if (size := len(to_json(schema))) > SCHEMA_BYTES:
        problem = f"has {size} bytes; the limit is {SCHEMA_BYTES}"
    elif not _fits_contract(schema):
        problem = "is nested too deeply, or holds a number that is too large"
    elif schema.get("type", "object") != "object":
        problem = "is not of type object"
    elif misfit := find_shape_problem(schema):
        problem = f"is not a JSON Schema: {misfit[:_QUOTED_CHARACTERS]}"
    if problem is not None:
        raise _RefusedError("schema_invalid", name, f"its inputSchema {problem}")
    return schema


def _collect_metadata(
    server: str, raw: Mapping[str, JsonValue], found: tuple[ToolFinding, ...]
) -> dict[str, JsonValue]:
    metadata: dict[str, JsonValue] = {"server": server}
    for field, (name, kind) in _METADATA_FIELDS.items():
        value = raw.get(field)
        # Checked in a list, because the value is nested one level deeper in the metadata.
        if isinstance(value, kind) and len(to_json(value)) <= _METADATA_BYTES and _fits_contract([value]):
            metadata[name] = value
    if found:
        metadata["findings"] = [finding.model_dump(mode="json") for finding in found]
    return metadata


def _fits_contract(value: JsonValue) -> bool:
    try:
        check_json(value)
    except ValueError:
        return False
    return True


def _remove_invisible(text: str) -> str:
    return "".join(char for char in text if unicodedata.category(char) not in _INVISIBLE_CATEGORIES).strip()


def _quote_name(name: JsonValue) -> str:
    return _remove_invisible(name)[:_QUOTED_CHARACTERS] if isinstance(name, str) else ""
