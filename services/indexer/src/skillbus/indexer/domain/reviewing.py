"""What an operator should see of a tool before it is found: suspicious texts, and how it changed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.common.suspicion import scan_schema, scan_text
from skillbus.contracts.tools import FieldChange, ToolDescription, ToolFinding

_REVIEWED: Final = ("name", "description", "tool_type", "parameters")
"""Fields that say what a tool does, and whose change is reviewed."""
_SHOWN: Final = ("name", "description", "tool_type", "tags", "parameters", "examples", "provider", "metadata")
_MAX_CHANGES: Final = 50
_MAX_CHARS: Final = 500
_ABSENT: Final = None
_BROUGHT: Final = "findings"
"""In `metadata`: what was found in a text before it was cut to what a description may be."""
_NO_REASON: Final = frozenset({"description_cut"})
"""Codes of what is told and holds nothing back: what was cut away no model reads."""


def findings_of(tool: ToolDescription) -> tuple[ToolFinding, ...]:
    """What is suspicious in its texts, and what whoever describes it found in what was not sent along."""
    return tuple(dict.fromkeys((*_scanned(tool), *_brought(tool))))


def is_reason(finding: ToolFinding) -> bool:
    """Whether an operator has to see it before the tool is found."""
    return finding.code not in _NO_REASON


def _scanned(tool: ToolDescription) -> tuple[ToolFinding, ...]:
    return (
        *scan_text(tool.name, "name"),
        *scan_text(tool.description, "description"),
        *(scan_schema(tool.parameters, "parameters") if tool.parameters else ()),
        *(scan_text("\n".join(tool.examples), "examples") if tool.examples else ()),
        *(scan_text("\n".join(tool.tags), "tags") if tool.tags else ()),
    )


def _brought(tool: ToolDescription) -> Iterator[ToolFinding]:
    """What is no finding is metadata like any other."""
    brought = tool.metadata.get(_BROUGHT)
    for value in brought if isinstance(brought, list) else ():
        with suppress(ValidationError):
            yield ToolFinding.model_validate(value)


def reviewed_otherwise(before: ToolDescription, after: ToolDescription) -> bool:
    """Whether a tool says of itself that it does something else."""
    return any(getattr(before, field) != getattr(after, field) for field in _REVIEWED)


def changes_of(before: ToolDescription, after: ToolDescription) -> tuple[FieldChange, ...]:
    """By field, and in schemas by the path to what differs; the first fifty, long values cut."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    found = (change for field in _SHOWN for change in _between(field, old[field], new[field]))
    return tuple(islice(found, _MAX_CHANGES))


def _between(path: str, before: JsonValue, after: JsonValue) -> Iterator[FieldChange]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _between(f"{path}.{key}"[:_MAX_CHARS], before.get(key, _ABSENT), after.get(key, _ABSENT))
    else:
        yield FieldChange(field=path, before=_cut(before), after=_cut(after))


def _cut(value: JsonValue) -> JsonValue:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
