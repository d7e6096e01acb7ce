"""Which JSON values look like a JSON Schema."""

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from skillbus.agent.domain.servers.listing import find_shape_problem

GOOD: list[JsonValue] = [
    {},
    True,
    {"type": ["string", "null"], "enum": ["a", None], "minLength": 0, "pattern": "a", "default": {"any": 1}},
    {"properties": {"properties": {"type": "object", "properties": {"type": {"type": "string"}}}}},
    {"anyOf": [{"type": "integer", "minimum": 1.5}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {}}}},
    {"items": {"type": "string"}, "prefixItems": [True], "additionalProperties": False, "required": ["a"]},
    {"x-unknown": 7, "title": "t", "examples": [1]},
]
BAD: list[JsonValue] = [
    7,
    "text",
    {"type": "strnig"},
    {"type": {}},
    {"properties": []},
    {"properties": {"a": "string"}},
    {"required": "a"},
    {"required": [1]},
    {"anyOf": {}},
    {"items": {"type": 7}},
    {"minLength": -1},
    {"minimum": "1"},
    {"enum": "a"},
    {"pattern": 7},
    {"$defs": {"a": {"not": 7}}},
]


@pytest.mark.parametrize("schema", GOOD)
def test_a_schema_is_one(schema: JsonValue) -> None:
    assert find_shape_problem(schema) is None


@pytest.mark.parametrize("schema", BAD)
def test_what_is_no_schema_is_told_with_its_place(schema: JsonValue) -> None:
    assert (find_shape_problem(schema) or "").startswith("$")


@pytest.mark.parametrize("schema", [*GOOD, *BAD])
def test_it_agrees_with_the_metaschema(schema: JsonValue) -> None:
    errors = list(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    assert bool(errors) is (find_shape_problem(schema) is not None)
