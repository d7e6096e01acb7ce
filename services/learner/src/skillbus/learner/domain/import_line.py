"""Parses one line of an import."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.contracts.learner.knowledge import IMPORTED, KnowledgeDraft, KnowledgeSource, KnowledgeStatus
from skillbus.contracts.validation import describe_problems
from skillbus.learner.domain.errors import UnfitError

_NULLABLE: Final = frozenset({"valid_from", "valid_to"})
_ERROR_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class ImportLine:
    draft: KnowledgeDraft
    """The item if it is new; the line's `id` is its external id unless the line gives one."""
    given: Mapping[str, object]
    """Fields that the line gives, by value. A known item keeps all other fields."""
    id: str | None
    """The item's own id, or an external one."""
    status: KnowledgeStatus | None
    """Status that an export wrote."""


def parse_line(value: JsonValue, source: KnowledgeSource | None) -> ImportLine:
    """Parse a line. Its `source` defaults to that of the request, then to `import`.

    Unknown fields are ignored, and so is null in a field that must have a value. Raises UnfitError with the faults.
    """
    if not isinstance(value, dict):
        raise UnfitError("the line is no JSON object: send one for each item")
    given = {
        field: value[field]
        for field in KnowledgeDraft.model_fields
        if field in value and (value[field] is not None or field in _NULLABLE)
    }
    if source is not None:
        given.setdefault("source", source)
    line_id = _parse_id(value.get("id"))
    try:
        draft = KnowledgeDraft.model_validate({"source": IMPORTED, "external_id": line_id, **given})
    except ValidationError as error:
        raise UnfitError(describe_problems(error)[:_ERROR_CHARACTERS]) from error
    try:
        status = None if value.get("status") is None else KnowledgeStatus(str(value["status"]))
    except ValueError:
        raise UnfitError(f"status: must be one of {', '.join(KnowledgeStatus)}") from None
    return ImportLine(draft, {field: getattr(draft, field) for field in given}, line_id, status)


def _parse_id(value: JsonValue) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and "\0" not in value):
        return value or None
    raise UnfitError("id: must be a string without NUL")
