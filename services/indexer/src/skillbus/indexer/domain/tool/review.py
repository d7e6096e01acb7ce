"""What an operator should see of a tool before it is found: suspicious texts, and how it changed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.common.prompt_injection import scan_schema, scan_text
from skillbus.contracts.indexer.tools import ToolDescription, ToolFieldChange, ToolFinding, ToolPutOutcome
from skillbus.indexer.domain.catalogue.tool import ToolRecord

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


def changes_of(before: ToolDescription, after: ToolDescription) -> tuple[ToolFieldChange, ...]:
    """By field, and in schemas by the path to what differs; the first fifty, long values cut."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    found = (change for field in _SHOWN for change in _between(field, old[field], new[field]))
    return tuple(islice(found, _MAX_CHANGES))


def _between(path: str, before: JsonValue, after: JsonValue) -> Iterator[ToolFieldChange]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _between(f"{path}.{key}"[:_MAX_CHARS], before.get(key, _ABSENT), after.get(key, _ABSENT))
    else:
        yield ToolFieldChange(field=path, before=_cut(before), after=_cut(after))


def _cut(value: JsonValue) -> JsonValue:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"


@dataclass(frozen=True, slots=True)
class Described:
    """A description that can be taken."""

    project: str
    tool: ToolDescription
    digest: str
    review: bool
    """Whether what changed, or is suspicious, waits for an operator."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a description."""

    outcome: ToolPutOutcome
    record: ToolRecord | None = None
    """To be written; None when nothing is."""
    findings: tuple[ToolFinding, ...] = ()
    error: str | None = None
    held_for: str | None = None
    """Why it waits for an operator since now."""


def decide(described: Described, earlier: ToolRecord | None, now: datetime) -> Decision:
    """What is to be written of a description, over `earlier`.

    Without review it is taken as it is, and what waited is over. With review, what was accepted stays what is recorded,
    and what it would become is kept beside it; the description that was accepted, come back, ends the waiting.
    """
    tool = described.tool
    if earlier is not None and earlier.tool.source != tool.source:
        return Decision(
            ToolPutOutcome.REJECTED, error=f"id: {tool.id!r} belongs to {earlier.tool.source}; choose another"
        )
    if earlier is not None and earlier.digest == described.digest:
        return _again(described, earlier, now)
    if earlier is not None and described.review and earlier.pending_digest == described.digest:
        return Decision(ToolPutOutcome.QUARANTINED, findings=earlier.findings)
    findings = findings_of(tool)
    reason = _reason(tool, earlier, findings) if described.review else None
    if reason is None:
        outcome = ToolPutOutcome.UPDATED if earlier else ToolPutOutcome.CREATED
        return Decision(outcome, _taken(described, earlier, findings, now), findings)
    return Decision(ToolPutOutcome.QUARANTINED, _held(described, earlier, findings, now), findings, held_for=reason)


def accepted(record: ToolRecord, now: datetime) -> ToolRecord:
    """What waits is what is recorded."""
    kept = {"tool": record.pending, "digest": record.pending_digest} if record.pending else {}
    return record.model_copy(
        update={**kept, "pending": None, "pending_digest": None, "changes": (), "accepted": True, "updated_at": now}
    )


def _again(described: Described, earlier: ToolRecord, now: datetime) -> Decision:
    """Described as it is recorded."""
    if earlier.pending is None and (earlier.accepted or described.review):
        outcome = ToolPutOutcome.UNCHANGED if earlier.accepted else ToolPutOutcome.QUARANTINED
        return Decision(outcome, findings=earlier.findings)
    findings = findings_of(earlier.tool)
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
    return Decision(ToolPutOutcome.QUARANTINED if record.held else ToolPutOutcome.UPDATED, record, findings)


def _reason(tool: ToolDescription, earlier: ToolRecord | None, findings: tuple[ToolFinding, ...]) -> str | None:
    """Why it has to be accepted by an operator; None if it has not."""
    # What was found and accepted before is no reason; findings beside something that waits were never accepted.
    known = earlier.findings if earlier is not None and not earlier.held else ()
    if news := [finding for finding in findings if is_reason(finding) and finding not in known]:
        return f"{news[0].where}: {news[0].message}"
    if earlier is None:
        return None
    if not earlier.accepted:
        return "it was not accepted yet"
    return "it is described otherwise" if reviewed_otherwise(earlier.tool, tool) else None


def _taken(
    described: Described, earlier: ToolRecord | None, findings: tuple[ToolFinding, ...], now: datetime
) -> ToolRecord:
    return ToolRecord(
        project=described.project,
        tool=described.tool,
        digest=described.digest,
        findings=findings,
        disabled=earlier.disabled if earlier else False,
        created_at=earlier.created_at if earlier else now,
        updated_at=now,
    )


def _held(
    described: Described, earlier: ToolRecord | None, findings: tuple[ToolFinding, ...], now: datetime
) -> ToolRecord:
    if earlier is None or not earlier.accepted:  # nothing was accepted yet that it could be held beside
        return _taken(described, earlier, findings, now).model_copy(update={"accepted": False})
    return earlier.model_copy(
        update={
            "findings": findings,
            "pending": described.tool,
            "pending_digest": described.digest,
            "changes": changes_of(earlier.tool, described.tool),
            "updated_at": now,
        }
    )
