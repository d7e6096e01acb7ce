"""What a server says of a tool, as the catalogue takes it. Nothing of it is trusted."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.domain.schema_shape import SCHEMA_BYTES, misshapen
from skillbus.common.prompt_injection import scan_text
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, ToolDescription, ToolFinding, ToolType
from skillbus.contracts.message import check_json

DESCRIPTION_MAX: Final = 8_192
"""Characters, as `ToolDescription` takes them."""
_NAME_MAX: Final = 200
_PROVIDER_MAX: Final = 200
_METADATA_BYTES: Final = 4 * 1024
"""Of what a server says beside: title, annotations and output schema, each."""
_FINDINGS_MAX: Final = 100
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a server offers, as far as it can be taken."""

    tools: tuple[ToolDescription, ...] = ()
    findings: tuple[ToolFinding, ...] = ()
    """About tools that were refused or cut, the first hundred."""


@dataclass(slots=True)
class _Reading:
    server: str
    provider: str
    tools: dict[str, ToolDescription] = field(default_factory=dict)
    findings: list[ToolFinding] = field(default_factory=list)


def tool_id(server: str, tool: str) -> str:
    """The id of a server's tool in the catalogue."""
    return f"{MCP_SOURCE_PREFIX}{server}/{tool}"


def describe_all(server: str, provider: str, listed: Iterable[JsonValue]) -> Listing:
    """Descriptions of what a server listed; of two tools with one name the first counts.

    It scans megabytes when a server sends them: not for the event loop's thread.

    Args:
        server: The name that it is registered under.
        provider: What it calls itself, as it was first known.
        listed: Its tools as MCP has them, or whatever it sent for one.
    """
    reading = _Reading(server, provider)
    for raw in listed:
        try:
            _read(reading, raw)
        except _RefusedError as refused:
            reading.findings.append(refused.finding)
    return Listing(tuple(reading.tools.values()), tuple(reading.findings[:_FINDINGS_MAX]))


class _RefusedError(Exception):
    def __init__(self, code: str, name: JsonValue, message: str) -> None:
        super().__init__(message)
        self.finding = ToolFinding(code=code, message=message, where=_shown(name))


def _read(reading: _Reading, raw: JsonValue) -> None:
    if not isinstance(raw, dict):
        raise _RefusedError("tool_malformed", "", f"an entry of the list is no tool but {type(raw).__name__}")
    name = _name(raw)
    if name in reading.tools:
        raise _RefusedError("duplicate_tool", name, "the server gives this name to several tools: the first counts")
    description, found = _description(name, raw.get("description"))
    parameters = _parameters(name, raw.get("inputSchema"))
    reading.findings += (finding.model_copy(update={"where": _shown(name)}) for finding in found)
    reading.tools[name] = ToolDescription(
        id=tool_id(reading.server, name),
        name=name,
        description=description,
        tool_type=ToolType.MCP,
        parameters=parameters,
        provider=_clean(reading.provider)[:_PROVIDER_MAX],
        source=f"{MCP_SOURCE_PREFIX}{reading.server}",
        metadata=_metadata(reading.server, raw, found),
    )


def _name(raw: Mapping[str, JsonValue]) -> str:
    name = raw.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _RefusedError("name_unusable", name, "the tool has no name")
    if len(name) > _NAME_MAX:
        raise _RefusedError("name_unusable", name, f"a name of {len(name)} characters; the limit is {_NAME_MAX}")
    if name != name.strip() or any(unicodedata.category(character) in _UNSEEN for character in name):
        raise _RefusedError("name_unusable", name, "the name has hidden characters, or space around it")
    return name


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def _description(name: str, said: JsonValue) -> tuple[str, tuple[ToolFinding, ...]]:
    """The description as it is kept, and what is wrong with the whole of it if it is not kept whole."""
    if said is None:
        return "", ()
    if not isinstance(said, str):
        raise _RefusedError("tool_malformed", name, f"its description is no text but {type(said).__name__}")
    text = said.replace("\0", " ")
    if len(text) <= DESCRIPTION_MAX:
        return text, ()
    message = f"the description has {len(text)} characters: the first {DESCRIPTION_MAX} are kept"
    cut = ToolFinding(code="description_cut", message=message, where="description")
    return text[:DESCRIPTION_MAX], (cut, *scan_text(text))


def _parameters(name: str, schema: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(schema, dict):
        raise _RefusedError("schema_invalid", name, "its inputSchema is no object")
    if (size := len(to_json(schema))) > SCHEMA_BYTES:
        raise _RefusedError("schema_invalid", name, f"its inputSchema has {size} bytes; the limit is {SCHEMA_BYTES}")
    if not _is_carried(schema):
        raise _RefusedError("schema_invalid", name, "its inputSchema is nested too deeply, or holds too large a number")
    if schema.get("type", "object") != "object":
        raise _RefusedError("schema_invalid", name, "its inputSchema is not of type object")
    if problem := misshapen(schema):
        raise _RefusedError("schema_invalid", name, f"its inputSchema is no JSON Schema: {problem[:_SHOWN]}")
    return schema


def _metadata(server: str, raw: Mapping[str, JsonValue], found: tuple[ToolFinding, ...]) -> dict[str, JsonValue]:
    metadata: dict[str, JsonValue] = {"server": server}
    metadata |= {key: value for key, value in _beside(raw) if _is_small(value)}
    if found:
        metadata["findings"] = [finding.model_dump(mode="json") for finding in found]
    return metadata


def _beside(raw: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(title := raw.get("title"), str):
        yield "title", title
    if isinstance(annotations := raw.get("annotations"), dict):
        yield "annotations", annotations
    if isinstance(output := raw.get("outputSchema"), dict):
        yield "output_schema", output


def _is_small(value: JsonValue) -> bool:
    return len(to_json(value)) <= _METADATA_BYTES and _is_carried([value])  # it stands one deeper


def _is_carried(value: JsonValue) -> bool:
    try:
        check_json(value)
    except ValueError:
        return False
    return True


def _clean(text: str) -> str:
    return "".join(character for character in text if unicodedata.category(character) not in _UNSEEN).strip()


def _shown(name: JsonValue) -> str:
    return _clean(name)[:_SHOWN] if isinstance(name, str) else ""
