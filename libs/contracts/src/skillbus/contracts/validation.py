"""Validation errors of pydantic in plain words: which fields are wrong and why, never the rejected values."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

_FIELD_CHARACTERS: Final = 200
"""Longest field path in a message. Keys of a request appear in it."""
_WORDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is no known field",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "none_required": "must be null",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
"""Text of the commonest types of errors. `{…}` is a bound in the error's context."""
_PREFIX: Final = re.compile(r"^(Value error|Assertion failed), ")
_SUBJECT: Final = re.compile(r"^\w+( \w+)? should ")


class FieldProblem(NamedTuple):
    """A field that failed validation."""

    field: str
    """Dotted path of the field; "" for the whole value."""
    problem: str


def describe_error(error: Mapping[str, Any]) -> str:
    """Return one item of `ValidationError.errors()` in plain words, such as `must be at most 100`."""
    if words := _WORDS.get(error["type"]):
        return words.format_map(error.get("ctx") or {})
    return _SUBJECT.sub("must ", _PREFIX.sub("", error["msg"]))


def list_problems(error: ValidationError) -> list[FieldProblem]:
    """Return the problems in the order of the fields. The rejected values are left out: they may be secrets."""
    return [
        FieldProblem(".".join(map(str, item["loc"]))[:_FIELD_CHARACTERS], describe_error(item))
        for item in error.errors(include_url=False, include_input=False)
    ]


def describe_problems(error: ValidationError, limit: int = 5) -> str:
    """Return the first `limit` problems on one line, as `field: problem; field: problem; and 3 more`."""
    problems = list_problems(error)
    described = [f"{field}: {problem}" if field else problem for field, problem in problems[:limit]]
    if len(problems) > limit:
        described.append(f"and {len(problems) - limit} more")
    return "; ".join(described)
