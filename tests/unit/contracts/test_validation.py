"""Validation errors as text."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from skillbus.contracts.validation import describe_problems, list_problems

SECRET = "hunter2-hunter2"


class Inner(BaseModel):
    number: int


class Outer(BaseModel):
    rows: list[Inner]
    name: str = ""

    @field_validator("name")
    @classmethod
    def _check(cls, name: str) -> str:
        if name:
            raise ValueError("must be empty")
        return name


def refused(value: object) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(value)
    return caught.value


def test_problems_name_their_field_and_not_the_value() -> None:
    error = refused({"rows": [{"number": 1}, {"number": SECRET}], "name": SECRET})
    problems = list_problems(error)
    assert [problem.field for problem in problems] == ["rows.1.number", "name"]
    assert problems[1].problem == "must be empty"
    assert SECRET not in describe_problems(error)


def test_the_first_problems_are_described_and_the_others_counted() -> None:
    described = describe_problems(refused({"rows": [{"number": "x"}] * 7}), limit=2)
    assert described.count("number: ") == 2
    assert described.endswith("; and 5 more")


def test_a_problem_of_the_whole_value_has_no_field() -> None:
    error = refused([])
    assert [problem.field for problem in list_problems(error)] == [""]
    assert describe_problems(error) == list_problems(error)[0].problem


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
        (Annotated[float, Field(lt=2.5)], 3, "must be less than 2.5"),
        (int, "x", "must be a whole number"),
        (bool, "x", "must be true or false"),
        (Inner, 3, "must be an object"),
        (tuple[int, ...], 3, "must be a list"),
        (Literal["a", "b"], "c", "must be 'a' or 'b'"),
        (Annotated[str, Field(max_length=2)], "xyz", "must have at most 2 characters"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "must have at most 1 item after validation, not 2"),
    ],
)
def test_a_problem_is_said_in_plain_words(kind: type[object], value: object, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert describe_problems(caught.value) == words


def test_a_missing_field_is_called_missing() -> None:
    assert describe_problems(refused({})) == "rows: is missing"
