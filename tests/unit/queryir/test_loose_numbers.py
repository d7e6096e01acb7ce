"""A number without a unit beside a device: part of its name, and no value of what is switched."""

import pytest

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.query_ir import QueryArguments
from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence

HOME = Home(
    "h",
    [
        Device(home="h", id="a", name="厨房窗帘1", room="厨房", type="cover"),
        Device(home="h", id="b", name="kitchen blind 1", room="kitchen", type="cover"),
        Device(home="h", id="c", name="空调", room="厨房", type="climate"),
    ],
)


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("关闭厨房窗帘17", "close"),
        ("打开灯3", "turn_on"),
        ("turn off kitchen blind 7", "close"),
        ("turn off light 3", "turn_off"),
        ("turn on light 3 in the kitchen", "turn_on"),
        ("turn on the light at 7", "turn_on"),
        ("close the blinds at 9", "close"),
        ("turn off the tv in 10", "turn_off"),
    ],
)
def test_a_number_of_a_device_that_nobody_knows_is_no_value_and_leaves_doubt(sentence: str, code: str) -> None:
    (query,) = parse_sentence(sentence, HOME).queries
    assert (query.action_code, query.arguments) == (code, QueryArguments())
    assert query.confidence <= 0.6


@pytest.mark.parametrize(
    ("sentence", "arguments"),
    [
        ("打开厨房窗帘1", QueryArguments()),
        ("把空调调到26", QueryArguments(temperature=26)),
        ("turn on kitchen blind 1", QueryArguments()),
        ("open the blinds to 50", QueryArguments(position=50)),
        ("turn off 3 lights", QueryArguments(count=3)),
        ("turn on the tv channel 5", QueryArguments(channel="5")),
        ("turn on the light at 7 pm", QueryArguments(at="19:00")),
    ],
)
def test_a_number_of_a_name_a_value_or_a_count_leaves_none(sentence: str, arguments: QueryArguments) -> None:
    (query,) = parse_sentence(sentence, HOME).queries
    assert (query.arguments, query.confidence) == (arguments, 1.0)
