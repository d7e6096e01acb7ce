"""Descriptions that are read one by one, and what an operator sees of how they changed."""

import math

import pytest
from pydantic import JsonValue

from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.indexer.domain.catalogue.tool import hash_description
from skillbus.indexer.domain.record.values import RefusedValueError
from skillbus.indexer.domain.tool.description import list_changes, parse_description


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["parameters", "metadata"])
def test_numbers_that_json_does_not_have_are_refused(field: str, number: float) -> None:
    with pytest.raises(RefusedValueError, match=f"{field}: .*NaN"):
        parse_description({"id": "x", "name": "x", field: {"deep": [number]}}, None)


@pytest.mark.parametrize(
    ("tool_id", "source"),
    [("mcp:files/read", "mcp:files"), ("builtin:now", "builtin"), ("weather", "lab"), ("天气", None)],
)
def test_ids_are_taken_from_the_source_that_they_belong_to(tool_id: str, source: str | None) -> None:
    assert parse_description({"id": tool_id, "name": "x"}, source).id == tool_id


@pytest.mark.parametrize(
    ("tool_id", "source"),
    [
        ("mcp:other/read", "mcp:files"),
        ("read", "mcp:files"),
        ("mcp:files/read", "builtin"),
        ("builtin:now", "lab"),
        ("now", "builtin"),
        ("skill:x", "skills"),
        ("x", "skills"),
    ],
)
def test_ids_of_others_are_refused(tool_id: str, source: str) -> None:
    with pytest.raises(RefusedValueError, match="id: "):
        parse_description({"id": tool_id, "name": "x"}, source)


def test_the_digest_is_the_same_whatever_the_order_of_keys() -> None:
    one = ToolDescription(id="x", name="x", metadata={"a": 1, "b": 2})
    two = ToolDescription(id="x", name="x", metadata={"b": 2, "a": 1})
    assert hash_description(one) == hash_description(two) != hash_description(ToolDescription(id="x", name="x"))


def test_changes_are_told_by_the_path_to_what_differs() -> None:
    def tool(properties: dict[str, JsonValue]) -> ToolDescription:
        return ToolDescription(id="x", name="x", parameters={"properties": properties})

    changes = list_changes(tool({"a": {"type": "string"}, "b": {}}), tool({"a": {"type": "number"}, "c": {}}))
    assert [(change.field, change.before, change.after) for change in changes] == [
        ("parameters.properties.a.type", "string", "number"),
        ("parameters.properties.b", {}, None),
        ("parameters.properties.c", None, {}),
    ]


def test_changes_are_bounded_in_number_and_length() -> None:
    before = ToolDescription(id="x", name="x", description="a" * 8_000)
    after = ToolDescription(id="x", name="x", description="b" * 8_000, metadata={str(n): n for n in range(500)})
    changes = list_changes(before, after)
    assert len(changes) == 50
    assert changes[0].after == "b" * 500 + "…"
