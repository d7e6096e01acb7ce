"""Validation errors of pydantic as text: which fields are wrong and why, never the rejected values."""

from typing import Final, NamedTuple

from pydantic import ValidationError

_FIELD_CHARACTERS: Final = 200
"""Longest field path in a message. Keys of a request appear in it."""


class FieldProblem(NamedTuple):
    """A field that failed validation."""

    field: str
    """Dotted path of the field; "" for the whole value."""
    problem: str


def list_problems(error: ValidationError) -> list[FieldProblem]:
    """Return the problems in the order of the fields. The rejected values are left out: they may be secrets."""
    return [
        FieldProblem(".".join(map(str, item["loc"]))[:_FIELD_CHARACTERS], item["msg"].removeprefix("Value error, "))
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def describe_problems(error: ValidationError, limit: int = 5) -> str:
    """Return the first `limit` problems on one line, as `field: problem; field: problem; and 3 more`."""
    problems = list_problems(error)
    described = [f"{field}: {problem}" if field else problem for field, problem in problems[:limit]]
    if len(problems) > limit:
        described.append(f"and {len(problems) - limit} more")
    return "; ".join(described)
