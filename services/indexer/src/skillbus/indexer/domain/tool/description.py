"""Descriptions of tools from others, parsed and reviewed by pure functions.

They are parsed one by one, so that a bad one does not affect the others.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.common.prompt_injection import scan_schema, scan_text
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    MCP_SOURCE_PREFIX,
    SKILLS_SOURCE,
    ToolDescription,
    ToolFieldChange,
    ToolFinding,
    ToolPutOutcome,
)
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX
from skillbus.indexer.domain.catalogue.tool import ToolRecord, states_destruction
from skillbus.indexer.domain.record.values import RefusedValueError, check_size, validate_value

_PARAMETERS_BYTES: Final = 64 * 1024
_METADATA_BYTES: Final = 16 * 1024
_BUILTIN_ID_PREFIX: Final = "builtin:"
_REVIEWED: Final = ("name", "description", "tool_type", "parameters")
"""Fields that say what a tool does. Their changes are reviewed."""
_COMPARED: Final = ("name", "description", "tool_type", "tags", "parameters", "examples", "provider", "metadata")
_MAX_CHANGES: Final = 50
_MAX_CHARACTERS: Final = 500
_SENT_FINDINGS: Final = "findings"
"""Key of `metadata` with findings in text that the sender cut away."""
_HARMLESS: Final = frozenset({"description_cut"})
"""Codes of findings that hold nothing back: no model reads the text that was cut away."""


def parse_description(value: JsonValue, source: str | None) -> ToolDescription:
    """Parse a description. `source` replaces the source that it names. Raises RefusedValueError.

    Sources reserved by skillbus are accepted only as `source`: a line of a file cannot claim to be a server's tool.
    """
    tool = validate_value(ToolDescription, value, **({} if source is None else {"source": source}))
    check_size("parameters", tool.parameters, _PARAMETERS_BYTES)
    check_size("metadata", tool.metadata, _METADATA_BYTES)
    if source is None and (tool.source in {SKILLS_SOURCE, BUILTIN_SOURCE} or tool.source.startswith(MCP_SOURCE_PREFIX)):
        raise RefusedValueError(f"source: {tool.source!r} is reserved by skillbus; choose another name")
    _check_id(tool)
    return tool


def _check_id(tool: ToolDescription) -> None:
    if tool.source == SKILLS_SOURCE or tool.id.startswith(SKILL_ID_PREFIX):
        raise RefusedValueError("id: `skill:` is for skills, which are installed; choose another id")
    is_mcp = tool.source.startswith(MCP_SOURCE_PREFIX)
    if is_mcp and not tool.id.startswith(f"{tool.source}/"):
        raise RefusedValueError(f"id: a tool of {tool.source} is `{tool.source}/<name>`")
    if not is_mcp and tool.id.startswith(MCP_SOURCE_PREFIX):
        raise RefusedValueError("id: `mcp:` is for tools of registered MCP servers; choose another id")
    if (tool.source == BUILTIN_SOURCE) != tool.id.startswith(_BUILTIN_ID_PREFIX):
        raise RefusedValueError("id: `builtin:` is for builtin tools, and they have such ids; choose another id")


@dataclass(frozen=True, slots=True)
class ReviewedDescription:
    """A valid description on its way into the catalogue."""

    project: str
    tool: ToolDescription
    digest: str
    review: bool
    """True if changed or suspicious tools wait for an operator."""


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """Decision about a description."""

    outcome: ToolPutOutcome
    record: ToolRecord | None = None
    """Record to write; None if nothing changes."""
    findings: tuple[ToolFinding, ...] = ()
    error: str | None = None
    held_for: str | None = None
    """Reason for which the tool waits for an operator from now on."""

    @property
    def rejected(self) -> bool:
        """True if the description is refused."""
        return self.outcome is ToolPutOutcome.REJECTED


def decide_description(described: ReviewedDescription, earlier: ToolRecord | None, now: datetime) -> ToolDecision:
    """Decide what to write for a description over the earlier record.

    Without review the description is accepted as it is, and a pending one is dropped. With review the accepted
    description stays recorded, and the new one is kept as pending. A description that equals the accepted
    one ends the quarantine.
    """
    tool = described.tool
    if earlier is not None:
        if earlier.tool.source != tool.source:
            error = f"id: {tool.id!r} belongs to {earlier.tool.source}; choose another"
            return ToolDecision(ToolPutOutcome.REJECTED, error=error)
        if earlier.digest == described.digest:
            return _decide_unchanged(described, earlier, now)
        if described.review and earlier.pending_digest == described.digest:
            return ToolDecision(ToolPutOutcome.QUARANTINED, findings=earlier.findings)
    findings = find_suspicions(tool)
    reason = _find_hold_reason(tool, earlier, findings) if described.review else None
    if reason is not None:
        record = _hold(described, earlier, findings, now)
        return ToolDecision(ToolPutOutcome.QUARANTINED, record, findings, held_for=reason)
    outcome = ToolPutOutcome.UPDATED if earlier else ToolPutOutcome.CREATED
    return ToolDecision(outcome, _accept(described, earlier, findings, now), findings)


def accept_pending(record: ToolRecord, now: datetime) -> ToolRecord:
    kept = {"tool": record.pending, "digest": record.pending_digest} if record.pending else {}
    return record.model_copy(
        update={**kept, "pending": None, "pending_digest": None, "changes": (), "accepted": True, "updated_at": now}
    )


def find_suspicions(tool: ToolDescription) -> tuple[ToolFinding, ...]:
    """Find suspicious texts in a description, and return the findings that its sender added to `metadata`."""
    found = [*scan_text(tool.name, "name"), *scan_text(tool.description, "description")]
    if tool.parameters:
        found += scan_schema(tool.parameters, "parameters")
    if tool.examples:
        found += scan_text("\n".join(tool.examples), "examples")
    if tool.tags:
        found += scan_text("\n".join(tool.tags), "tags")
    sent = tool.metadata.get(_SENT_FINDINGS)
    for value in sent if isinstance(sent, list) else ():
        with suppress(ValidationError):  # other values are metadata like any other
            found.append(ToolFinding.model_validate(value))
    return tuple(dict.fromkeys(found))


def list_changes(before: ToolDescription, after: ToolDescription) -> tuple[ToolFieldChange, ...]:
    """List changes by field, and in schemas by path: at most fifty, with long values cut."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    found = (change for field in _COMPARED for change in _compare_values(field, old[field], new[field]))
    return tuple(islice(found, _MAX_CHANGES))


def _decide_unchanged(described: ReviewedDescription, earlier: ToolRecord, now: datetime) -> ToolDecision:
    if earlier.pending is None and (earlier.accepted or described.review):
        outcome = ToolPutOutcome.UNCHANGED if earlier.accepted else ToolPutOutcome.QUARANTINED
        return ToolDecision(outcome, findings=earlier.findings)
    findings = find_suspicions(earlier.tool)
    record = earlier.model_copy(
        update={
            "pending": None,
            "pending_digest": None,
            "changes": (),
            "findings": findings,
            "accepted": earlier.accepted or not described.review,
            "updated_at": now,
        }
    )
    return ToolDecision(ToolPutOutcome.QUARANTINED if record.held else ToolPutOutcome.UPDATED, record, findings)


def _find_hold_reason(
    tool: ToolDescription, earlier: ToolRecord | None, findings: tuple[ToolFinding, ...]
) -> str | None:
    """Return the reason for which an operator must accept a description; None if there is none."""
    # Findings that were accepted before are no reason. Findings of a pending description were never accepted.
    known = earlier.findings if earlier is not None and not earlier.held else ()
    if new := [finding for finding in findings if finding.code not in _HARMLESS and finding not in known]:
        return f"{new[0].where}: {new[0].message}"
    if earlier is None:
        return None
    if not earlier.accepted:
        return "it was not accepted yet"
    if states_destruction(earlier.tool) and not states_destruction(tool):
        return "it no longer says that it may destroy something"
    changed = any(getattr(earlier.tool, field) != getattr(tool, field) for field in _REVIEWED)
    return "its description changed" if changed else None


def _accept(
    described: ReviewedDescription, earlier: ToolRecord | None, findings: tuple[ToolFinding, ...], now: datetime
) -> ToolRecord:
    return ToolRecord(
        project=described.project,
        tool=described.tool,
        digest=described.digest,
        findings=findings,
        disabled=earlier.disabled if earlier else False,
        approval_mark=earlier.approval_mark if earlier else None,
        created_at=earlier.created_at if earlier else now,
        updated_at=now,
    )


def _hold(
    described: ReviewedDescription, earlier: ToolRecord | None, findings: tuple[ToolFinding, ...], now: datetime
) -> ToolRecord:
    if earlier is None or not earlier.accepted:  # there is no accepted description to keep
        return _accept(described, earlier, findings, now).model_copy(update={"accepted": False})
    return earlier.model_copy(
        update={
            "findings": findings,
            "pending": described.tool,
            "pending_digest": described.digest,
            "changes": list_changes(earlier.tool, described.tool),
            "updated_at": now,
        }
    )


def _compare_values(path: str, before: JsonValue, after: JsonValue) -> Iterator[ToolFieldChange]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _compare_values(f"{path}.{key}"[:_MAX_CHARACTERS], before.get(key), after.get(key))
    else:
        yield ToolFieldChange(field=path, before=_cut(before), after=_cut(after))


def _cut(value: JsonValue) -> JsonValue:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
