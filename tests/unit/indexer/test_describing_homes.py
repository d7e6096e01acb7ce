"""Descriptions of devices and commands: which are taken, and what the refusal of the others says."""

import pytest
from pydantic import JsonValue

from skillbus.indexer.domain.home.command import list_command, parse_command
from skillbus.indexer.domain.home.device import list_device, make_device_key_id, parse_device, split_device_key_id
from skillbus.indexer.domain.record.values import RefusedValueError

LEVEL: dict[str, JsonValue] = {"name": "level", "source": "brightness"}


def lamp(**fields: JsonValue) -> dict[str, JsonValue]:
    return {"home": "Home", "id": "lamp-1", "name": "台灯", "type": "light", **fields}


def switch_on(**fields: JsonValue) -> dict[str, JsonValue]:
    return {
        "id": "switch.on",
        "capability": {"id": "switch"},
        "command": {"id": "on"},
        "description": "打开设备",
        **fields,
    }


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("lamp", "is not a JSON object"),
        (lamp(home=None), "home: is missing: name the home"),
        (lamp(home="a\0b"), "home: contains a NUL character"),
        (lamp(home=" "), "home: must have at least 1 character"),
        (lamp(name="x" * 10_000), "name: must have at most 100 characters"),
        (lamp(name="a\0b"), "name: contains a NUL character"),
        (lamp(name=None), "name: must be a text"),
        (lamp(aliases=["ok", "\0"]), "aliases.1: contains a NUL character"),
        (lamp(type="灯"), "type: must match"),
        (lamp(id=7), "id: must be a text"),
        ({"home": "Home", "id": "lamp-1", "name": "台灯"}, "type: is missing"),
    ],
)
def test_a_bad_device_is_refused_with_its_field(value: JsonValue, error: str) -> None:
    with pytest.raises(RefusedValueError) as caught:
        parse_device("default", None, value)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (["switch"], "is not a JSON object"),
        (switch_on(description=" "), "description.en: must have at least 1 character"),
        (switch_on(description={}), "description: "),
        (switch_on(capability="switch"), "capability: must be"),
        (switch_on(arguments=[{**LEVEL, "source": "loudness"}]), "arguments.0.source: "),
        (switch_on(arguments=[{**LEVEL, "minimum": float("nan")}]), "arguments.0.minimum: must be a finite number"),
        (switch_on(arguments=[{**LEVEL, "minimum": 5, "maximum": 1}]), "arguments.0.maximum: must be at least `min"),
        (switch_on(arguments=[{**LEVEL, "values": ["x" * 70_000]}]), "arguments: 70"),
        (switch_on(arguments=[{**LEVEL, "values": [2**70]}]), "arguments.0.values.0: contains an integer"),
    ],
)
def test_a_bad_command_is_refused_with_its_field(value: JsonValue, error: str) -> None:
    with pytest.raises(RefusedValueError) as caught:
        parse_command("default", value)
    assert str(caught.value).startswith(error)


def test_a_device_gets_the_home_of_the_request_unless_it_names_one() -> None:
    assert parse_device("default", "Other", lamp()).device.home == "Home"
    assert parse_device("default", "Other", lamp(home=None)).device.home == "Other"


def test_devices_of_different_homes_have_different_keys() -> None:
    pairs = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a%", "2Fb/c"), ("小明的家 .*>", "灯/1%")]
    assert len({make_device_key_id(*pair) for pair in pairs}) == len(pairs)
    assert [split_device_key_id(make_device_key_id(*pair)) for pair in pairs] == pairs


def test_the_listed_form_has_the_digest_of_its_record() -> None:
    device, command = parse_device("default", None, lamp()), parse_command("default", switch_on())
    assert (list_device(device).digest, list_command(command).digest) == (device.digest, command.digest)
    assert parse_device("default", None, lamp(aliases=[], room=None)).digest == device.digest
    assert parse_device("default", None, lamp(name="Desk lamp")).digest != device.digest
