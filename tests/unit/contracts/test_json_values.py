"""Values of any form that others send: what passes through everything, and what would stop at some of it."""

import math

import pytest
from pydantic import JsonValue, ValidationError

from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.contracts.message import JSON_DEPTH, check_json


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
