"""Converts the tools that a server lists into descriptions, and updates the catalogue. The server is not trusted."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.domain.ports import AgentCatalogue
from skillbus.common.prompt_injection import scan_text
from skillbus.contracts.indexer.tools import (
    MCP_SOURCE_PREFIX,
    ToolDescription,
    ToolFinding,
    ToolPutOutcome,
    ToolState,
    ToolType,
)
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
SCHEMA_BYTES: Final = 64 * 1024
"""Size of an input schema that the catalogue accepts."""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_KEYWORDS: Final = frozenset(
    {"additionalProperties", "additionalItems", "contains", "else", "if", "not", "propertyNames", "then"}
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_TEXTS: Final = frozenset({"$ref", "$schema", "$id", "pattern", "title", "description", "format"})


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


def describe_tools(server: str, provider: str, listed: Iterable[JsonValue]) -> ServerListing:
    """Describe the tools of a server. Of two tools with one name the first counts.

    `server` is its registered name, `provider` the name that it reported when it was first listed, `listed` anything
    that it sent. It scans megabytes if a server sends them: call it in a thread.
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
        id=f"{MCP_SOURCE_PREFIX}{server}/{name}",
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


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Changes that a listing made to the catalogue."""

    created: int = 0
    updated: int = 0
    quarantined: int = 0
    """Tools that this listing put into quarantine."""
    removed: int = 0
    waiting: int = 0
    """All tools of the server that are in quarantine now."""
    findings: tuple[ToolFinding, ...] = ()
    """Findings about tools that the catalogue refused."""

    @property
    def changed(self) -> bool:
        return bool(self.created or self.updated or self.quarantined or self.removed)


async def sync_catalogue(catalogue: AgentCatalogue, project: str, server: str, listing: ServerListing) -> SyncReport:
    """Put the listed tools into the catalogue, and remove those that are no longer listed.

    Disabled tools, tools in quarantine, and tools that an operator marked for approval are kept: otherwise a server
    could make such a tool callable again by leaving it out of its list for a moment. After an error the call can be
    repeated. Raises RequestError.
    """
    source = f"{MCP_SOURCE_PREFIX}{server}"
    tools = await catalogue.list_tools(project, source)
    known = {tool.id: tool.state for tool in tools}
    marked = {tool.id for tool in tools if tool.approval_mark}
    puts = await catalogue.put_tools(project, source, listing.tools)
    listed = {tool.id for tool in listing.tools}
    gone = sorted(id_ for id_, state in known.items() if id_ not in listed | marked and state is ToolState.ACTIVE)
    removed = await catalogue.remove_tools(project, source, gone) if gone else 0
    outcomes = [put.outcome for put in puts]
    held = {put.id for put in puts if put.outcome is ToolPutOutcome.QUARANTINED}
    held_before = {id_ for id_, state in known.items() if state is ToolState.QUARANTINED}
    return SyncReport(
        created=outcomes.count(ToolPutOutcome.CREATED),
        updated=outcomes.count(ToolPutOutcome.UPDATED),
        quarantined=len(held - held_before),
        removed=removed,
        waiting=len(held | held_before),
        findings=tuple(
            ToolFinding(code="rejected", message=(put.error or "")[:300], where=(put.id or "")[:80])
            for put in puts
            if put.outcome is ToolPutOutcome.REJECTED
        ),
    )


def find_shape_problem(schema: JsonValue, path: str = "$") -> str | None:
    """Return the first problem of a schema and its place; None if it has the shape of a JSON Schema.

    It takes some microseconds, because a listing can hold thousands of schemas. The metaschema takes a millisecond for
    each; it is applied when arguments are checked.
    """
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path} is not a schema"
    for keyword, value in schema.items():
        if problem := _check_keyword(keyword, value, f"{path}.{keyword}"):
            return problem
    return None


def _check_keyword(keyword: str, value: JsonValue, path: str) -> str | None:
    if keyword in _SCHEMA_MAPS:
        return _check_all(value, path) if isinstance(value, dict) else f"{path} is not an object of schemas"
    if keyword in _SCHEMA_LISTS or (keyword == "items" and isinstance(value, list)):
        return _check_all(value, path) if isinstance(value, list) else f"{path} is not a list of schemas"
    if keyword in _SCHEMA_KEYWORDS or keyword == "items":
        return find_shape_problem(value, path)
    return None if _fits_keyword(keyword, value) else f"{path} does not fit its keyword"


def _fits_keyword(keyword: str, value: JsonValue) -> bool:
    if keyword == "type":
        types = value if isinstance(value, list) else [value]
        return all(isinstance(kind, str) and kind in _TYPES for kind in types)
    if keyword == "required":
        # A boolean was used by drafts before the fourth; it has no meaning since.
        return isinstance(value, bool) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
    if keyword in _NUMBERS:
        return isinstance(value, int | float)  # the exclusive ones were booleans in draft 4
    if keyword in _COUNTS:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if keyword == "enum":
        return isinstance(value, list)
    return keyword not in _TEXTS or isinstance(value, str)


def _check_all(schemas: "dict[str, JsonValue] | list[JsonValue]", path: str) -> str | None:
    items = schemas.items() if isinstance(schemas, dict) else enumerate(schemas)
    return next((problem for key, schema in items if (problem := find_shape_problem(schema, f"{path}.{key}"))), None)
