"""Validation errors as text."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from skillbus.common.validation import describe_problems, list_problems

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
