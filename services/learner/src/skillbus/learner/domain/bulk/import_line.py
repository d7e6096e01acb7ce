"""One line of an import: what it says of an item, and which fields it names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.contracts.learner.knowledge import IMPORTED, KnowledgeDraft, KnowledgeSource, KnowledgeStatus
from skillbus.learner.domain.errors import UnfitError

_MAY_BE_EMPTIED: Final = frozenset({"valid_from", "valid_to"})
_FAULTS_SAID: Final = 5
_ERROR_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says."""

    draft: KnowledgeDraft
    """Of a new item: with the line's `id` as its external id where it names none."""
    named: Mapping[str, object]
    """The fields that it names, by their values: what it does not name stays as it is in an item that is there."""
    id: str | None
    """An item's own id, or what somebody else calls it."""
    status: KnowledgeStatus | None
    """That of an item in an export."""


def read_line(value: JsonValue, source: KnowledgeSource | None) -> Line:
    """A line, whose `source` is that of the request, or `import`, where it names none.

    Fields that an item does not have are ignored, and so is null where a field cannot be empty.

    Raises:
        UnfitError: it is no item; the message says what is wrong with it.
    """
    if not isinstance(value, dict):
        raise UnfitError("the line is no JSON object: send one for each item")
    given = {field: value[field] for field in KnowledgeDraft.model_fields if _says(value, field)}
    if source is not None:
        given.setdefault("source", source)
    known_as = _id(value.get("id"))
    try:
        draft = KnowledgeDraft.model_validate({"source": IMPORTED, "external_id": known_as, **given})
    except ValidationError as error:
        raise UnfitError(_faults(error)) from error
    named = {field: getattr(draft, field) for field in given}
    return Line(draft, named, known_as, _status(value.get("status")))


def _says(value: Mapping[str, JsonValue], field: str) -> bool:
    return field in value and (value[field] is not None or field in _MAY_BE_EMPTIED)


def _id(value: JsonValue) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and "\0" not in value):
        return value or None
    raise UnfitError("id: is no text without NUL: give it as one")


def _status(value: JsonValue) -> KnowledgeStatus | None:
    if value is None:
        return None
    for status in KnowledgeStatus:
        if value == status.value:
            return status
    raise UnfitError(f"status: is none of {', '.join(KnowledgeStatus)}")


def _faults(error: ValidationError) -> str:
    """Which fields are wrong and how, without their values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:_FAULTS_SAID])
    return said[:_ERROR_CHARACTERS]
