"""Values of a request that should each be a description of a tool, device or command. Each is refused by itself."""

import json
from typing import Final, TypeVar

from pydantic import JsonValue, ValidationError

from skillbus.contracts.message import Message
from skillbus.contracts.validation import describe_problems

_REPORTED_PROBLEMS: Final = 3
_READ_CHARACTERS: Final = 300

MessageT = TypeVar("MessageT", bound=Message)


class RefusedValueError(ValueError):
    """The value is refused; the message says why."""


def validate_value(kind: type[MessageT], value: JsonValue, **given: JsonValue) -> MessageT:
    """Validate a value. Fields of `given` replace those of the value. Raises RefusedValueError."""
    if not isinstance(value, dict):
        raise RefusedValueError("is not a JSON object")
    try:
        return kind.model_validate({**value, **given})
    except ValidationError as error:
        raise RefusedValueError(describe_problems(error, _REPORTED_PROBLEMS)) from None


def check_size(field: str, value: object, limit_bytes: int) -> None:
    """Raise RefusedValueError if a field is not JSON, or takes more bytes as JSON."""
    if not value:
        return
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        raise RefusedValueError(f"{field}: contains a number that JSON does not have, such as NaN") from None
    if size > limit_bytes:
        raise RefusedValueError(f"{field}: {size} bytes are over the limit of {limit_bytes}: send less")


def read_id(value: JsonValue) -> str | None:
    """Return the id of a value that may be refused; None if it has none."""
    return read_text(value, "id")


def read_text(value: JsonValue, field: str) -> str | None:
    """Return a field of a value that may be refused, cut to a length that a reply can carry; None if it has none."""
    found = value.get(field) if isinstance(value, dict) else None
    return found[:_READ_CHARACTERS] if isinstance(found, str) else None
