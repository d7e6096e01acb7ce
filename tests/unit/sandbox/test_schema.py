import contextlib
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillbus.sandbox.domain.errors import ArgumentsInvalid, SchemaInvalid
from skillbus.sandbox.domain.run.arguments import Json, check_args

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
        ({"rows": [], "code": "a" * 70_000 + "-1"}, "$.code"),
        ({"rows": [], "k" * 70_000: 1}, "$"),
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
        {"properties": {"a": {"pattern": "(?=a)a"}}},
        {"properties": {"a": {"pattern": r"(a)\1"}}},
        {"properties": {"a": {"pattern": r"(\w{1,200}x){90}"}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"$ref": "#"},
        {"patternProperties": {"(?!x)y": {}}},
        {"unevaluatedProperties": False},
        {"$ref": "#/$defs/d0", "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}},
    ],
    ids=["type", "regex", "lookahead", "backref", "huge", "remote", "endless", "keys", "unevaluated", "forks"],
)
def test_a_schema_that_cannot_be_used_is_refused_and_hangs_nothing(schema: dict[str, Json]) -> None:
    began = time.process_time()
    with pytest.raises(SchemaInvalid):
        check_args(schema, {"a": "a" * 60})
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "pattern", ["a?" * 100 + "a" * 100 + "$", "^(a+)+$", "^(a|a)*$", "a*a*a*a*b", "(?:a|a)" * 60 + "$", "(a*)*c"]
)
@pytest.mark.parametrize("where", ["pattern", "patternProperties", "additionalProperties"])
def test_no_pattern_takes_long_to_match(pattern: str, where: str) -> None:
    text = "a" * 1000 + "d"
    schemas: dict[str, dict[str, Json]] = {
        "pattern": {"properties": {"a": {"pattern": pattern}}},
        "patternProperties": {"patternProperties": {pattern: False}, "required": ["b"]},
        "additionalProperties": {"patternProperties": {pattern: True}, "additionalProperties": False},
    }
    began = time.process_time()
    with pytest.raises(ArgumentsInvalid):
        check_args(schemas[where], {"a": text} if where == "pattern" else {text: 1})
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [{"a": [n]} for n in range(20_000)]),
        ({"items": {"enum": list(range(5_000))}}, ["x"] * 1_000),
        ({"contains": {"allOf": [{"type": "string"}] * 500}}, [1] * 5_000),
    ],
    ids=["unique", "enum", "contains"],
)
def test_checking_large_arguments_ends_soon(schema: dict[str, Json], value: Json) -> None:
    began = time.process_time()
    with contextlib.suppress(SchemaInvalid, ArgumentsInvalid):
        check_args({"properties": {"a": schema}}, {"a": value})
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("items", "are_different"), [([1, True, "1"], True), ([1, 1.0], False), ([{"a": []}] * 2, False)]
)
def test_items_are_the_same_as_json_schema_says(items: list[Json], are_different: bool) -> None:
    schema: dict[str, Json] = {"properties": {"a": {"uniqueItems": True}}}
    if are_different:
        check_args(schema, {"a": items})
    else:
        with pytest.raises(ArgumentsInvalid):
            check_args(schema, {"a": items})


def test_properties_that_no_pattern_names_are_additional() -> None:
    schema: dict[str, Json] = {
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
        "properties": {"a": {}},
    }
    check_args(schema, {"a": [], "x-b": "text", "c": 1})
    for args, path in (({"x-b": 1}, "$['x-b']"), ({"c": "text"}, "$.c")):
        with pytest.raises(ArgumentsInvalid) as caught:
            check_args(schema, args)
        assert caught.value.path == path


def test_a_schema_is_prepared_once() -> None:
    schema: dict[str, Json] = {"properties": {f"a{number}": {"type": "integer"} for number in range(50)}}
    took_s = []
    for number in range(10):
        began = time.process_time()
        check_args(schema, {"a1": number})
        took_s.append(time.process_time() - began)
    assert min(took_s[1:]) < took_s[0] / 5


def test_a_schema_that_was_changed_in_place_holds_as_it_is_now() -> None:
    schema: dict[str, Json] = {"required": ["a"]}
    check_args(schema, {"a": 1})
    schema["required"] = ["b"]
    with pytest.raises(ArgumentsInvalid):
        check_args(schema, {"a": 1})


def test_each_check_against_a_schema_has_all_its_steps() -> None:
    schema: dict[str, Json] = {"properties": {"a": {"items": {"enum": list(range(1_000))}}}}
    rows: list[Json] = [1] * 120  # more than half of the steps
    for _ in range(3):
        check_args(schema, {"a": rows})
    with pytest.raises(SchemaInvalid, match="steps"):
        check_args(schema, {"a": rows * 3})
    check_args(schema, {"a": rows})


def test_threads_that_check_against_one_schema_get_their_own_answers() -> None:
    schema: dict[str, Json] = {"properties": {"a": {"pattern": "^x+$", "maxLength": 500}}}

    def find_problem(number: int) -> str | None:
        try:
            check_args(schema, {"a": "x" * 400 if number % 2 else f"x{number}"})
        except ArgumentsInvalid as error:
            return str(error)
        return None

    with ThreadPoolExecutor(4) as threads:
        problems = list(threads.map(find_problem, range(200)))
    assert [problem is None for problem in problems] == [bool(number % 2) for number in range(200)]
    assert all(f"x{number}" in (problems[number] or "") for number in range(0, 200, 2))


def test_of_large_schemas_only_some_stay_prepared() -> None:
    for number in range(20):
        check_args({"description": str(number) * 300_000, "required": ["a"]}, {"a": 1})
    gc.collect()
    prepared = [it for it in gc.get_objects() if isinstance(it, dict) and len(str(it.get("description"))) >= 300_000]
    assert 0 < len(prepared) < 16
