"""Texts and JSON values that others send: bounds, their documentation, and values that some reader would refuse."""

import math

import pytest
from pydantic import JsonValue, ValidationError

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.indexer.tools import GetTool, ToolDescription
from skillbus.contracts.message import JSON_DEPTH, check_json
from skillbus.contracts.retriever.tool_search import SearchTools


@pytest.mark.parametrize(
    ("tool_id", "said"),
    [
        ("", "String should have at least 1 character"),
        ("x" * 301, "String should have at most 300 characters"),
        (" x", "String should match pattern"),
        ("a\0b", "NUL"),
    ],
)
def test_a_text_is_measured_in_characters(tool_id: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        GetTool(id=tool_id)


def test_the_schema_of_a_text_has_all_its_bounds() -> None:
    of_id = GetTool.model_json_schema()["properties"]["id"]
    assert (of_id["minLength"], of_id["maxLength"], of_id["pattern"]) == (1, 300, r"^\S(.*\S)?$")
    assert SearchTools.model_json_schema()["properties"]["query"]["maxLength"] == 8_000


def nested(levels: int) -> JsonValue:
    value: JsonValue = "a leaf"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("value", [nested(JSON_DEPTH), 2**64 - 1, -(2**63), 1e308, True, None, "9" * 10_000])
def test_what_every_reader_takes_is_carried(value: JsonValue) -> None:
    check_json(value)
    ToolDescription(id="x", name="x", parameters={"type": "object"}, metadata={"many": [1, 2.5, {}, []]})


@pytest.mark.parametrize("value", [nested(JSON_DEPTH + 1), 2**64, -(2**63) - 1, math.inf, [{"a": [math.nan]}]])
def test_what_some_reader_refuses_is_not_carried(value: JsonValue) -> None:
    with pytest.raises(ValueError, match=r"nested|contains"):
        check_json(value)
    with pytest.raises(ValidationError):
        ToolDescription(id="x", name="x", metadata={"value": value})
    with pytest.raises(ValidationError):
        ToolDescription(id="x", name="x", parameters={"value": value})


def test_a_type_of_a_device_is_written_in_small_letters_however_it_was_given() -> None:
    assert Device(home="h", id="d", name="Lamp", type=" Light ").type == "light"


def test_names_that_look_alike_are_one_name_and_an_invisible_name_is_none() -> None:
    device = Device(
        home="vil\u200bla", id="d", name="\ufeffLamp\u00ad", aliases=("台\u2060灯", "👨\u200d👩\u200d👧"), type="light"
    )
    assert (device.home, device.name, device.aliases) == ("villa", "Lamp", ("台灯", "👨\u200d👩\u200d👧"))
    with pytest.raises(ValidationError):
        Device(home="villa", id="d", name="\u200b\u200e", type="light")
