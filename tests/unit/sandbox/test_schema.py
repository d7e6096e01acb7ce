import time

import pytest

from skillbus.sandbox.domain.arguments import Json
from skillbus.sandbox.domain.errors import ArgumentsInvalid, SchemaInvalid
from skillbus.sandbox.domain.schema import check_args

SCHEMA: dict[str, Json] = {
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "code": {"type": "string", "pattern": "^[a-z]+-[0-9]+$"},
        "pattern": {"type": "string"},
    },
}


def test_fitting_arguments_pass() -> None:
    check_args(SCHEMA, {"rows": [{"name": "a"}], "code": "ab-12", "pattern": "(a+)+"})


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"rows": [{"name": "a"}, {"name": 3}]}, "$.rows[1].name"),
        ({}, "$"),
        ({"rows": [], "other": 1}, "$"),
        ({"rows": [], "code": "12"}, "$.code"),
        ({"rows": [], "code": "a" * 2000 + "-1"}, "$.code"),
        ({"rows": [], "k" * 2000: 1}, "$"),
    ],
)
def test_a_misfit_names_its_path(args: dict[str, Json], path: str) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        check_args(SCHEMA, args)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": {"a": {"pattern": "["}}},
        {"properties": {"a": {"pattern": "^(a+)+$"}}},
        {"properties": {"a": {"pattern": "^(a|a)*$"}}},
        {"properties": {"a": {"pattern": r"(a)\1"}}},
        {"properties": {"a": {"pattern": "a*a*a*a*b"}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"$ref": "#"},
        {"patternProperties": {"(x+)*y": {}}},
    ],
    ids=["type", "regex", "nested", "alternatives", "backref", "polynomial", "remote", "endless", "keys"],
)
def test_a_schema_that_cannot_be_used_is_refused_and_hangs_nothing(schema: dict[str, Json]) -> None:
    began = time.monotonic()
    with pytest.raises(SchemaInvalid):
        check_args(schema, {"a": "a" * 60})
    assert time.monotonic() - began < 2
