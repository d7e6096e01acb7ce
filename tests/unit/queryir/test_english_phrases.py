"""Rules of the English grammar about phrases: lists of rooms, measures, players, robots, exceptions and courtesy."""

from typing import Any, Final

import pytest

from skillbus.contracts.indexer.devices import Device
from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence


def _put_device(identifier: str, name: str, room: str | None, kind: str, *aliases: str) -> Device:
    return Device(home="farm", id=identifier, name=name, aliases=aliases, room=room, type=kind)


_FARM: Final = Home(
    "farm",
    [
        _put_device("1", "Grandpa", "parlor", "speaker"),
        _put_device("2", "Breezy", "attic", "fan"),
        _put_device("3", "Porch Light", "porch", "light"),
        _put_device("4", "Garage Lights", "garage", "light"),
        _put_device("5", "Blinds", "parlor", "cover"),
        _put_device("6", "Gate", "porch", "lock"),
        _put_device("7", "Fluffy", "barn", "vacuum"),
        _put_device("8", "Gas", "barn", "sensor"),
        _put_device("9", "Monthly gas usage", None, "sensor"),
        _put_device("10", "Furnace", "barn", "sensor"),
        _put_device("11", "Ada", None, "person"),
        _put_device("12", "Stove", "barn", "oven"),
        _put_device("13", "Bunk Lamp", "Room 302", "light"),
    ],
)


def _read(sentence: str, home: Home = _FARM) -> list[dict[str, Any]]:
    queries = parse_sentence(sentence, home).queries
    return [one.model_dump(mode="json", exclude_defaults=True, exclude={"action", "confidence"}) for one in queries]


@pytest.mark.parametrize(
    "sentence",
    [
        "turn on the lights in the barn and on the porch",
        "turn on the barn and porch lights",
        "barn and porch lights on",
    ],
)
def test_rooms_joined_by_and_are_a_list_also_behind_a_preposition(sentence: str) -> None:
    assert _read(sentence) == [{"action_code": "turn_on", "type_hint": "light", "scope_include": ["barn", "porch"]}]


def test_a_name_behind_another_room_is_its_room_and_type() -> None:
    [query] = _read("barn and garage lights on")
    assert (query["type_hint"], query["scope_include"]) == ("light", ["barn", "garage"])


def test_a_name_that_is_a_word_for_a_type_is_the_type_where_all_are_meant() -> None:
    [query] = _read("open all curtains and blinds")
    assert (query["type_hint"], query["quantifier"]) == ("cover", "all")


def test_a_room_of_the_home_may_have_a_word_for_the_room_of_the_speaker_in_its_name() -> None:
    assert _read("turn on the lights in the room 302")[0]["scope_include"] == ["Room 302"]


@pytest.mark.parametrize(
    "sentence", ["play some jazz on Grandpa", "Grandpa, play some old songs", "play jazz on grandpa"]
)
def test_what_is_played_is_no_device_and_has_no_quantifier(sentence: str) -> None:
    assert _read(sentence) == [{"action_code": "play", "name_hint": "Grandpa"}]


@pytest.mark.parametrize(("sentence", "code"), [("go back", "previous"), ("Fluffy, go back", "dock")])
def test_only_a_robot_goes_back_to_its_base(sentence: str, code: str) -> None:
    assert _read(sentence)[0]["action_code"] == code


def test_a_fan_that_runs_on_low_has_a_speed() -> None:
    assert _read("let Breezy run on low")[0]["action_code"] == "set_speed"


@pytest.mark.parametrize("sentence", ["light up the parlor", "light the parlor up"])
def test_to_light_up_a_room_turns_on_its_lights(sentence: str) -> None:
    assert _read(sentence) == [{"action_code": "turn_on", "scope_include": ["parlor"]}]


def test_a_verb_alone_behind_its_object_is_a_verb() -> None:
    assert _read("Gate, lock") == [{"action_code": "lock", "name_hint": "Gate"}]


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("what is the furnace temperature", "Furnace"),
        ("how much gas is shown by monthly gas usage?", "Monthly gas usage"),
    ],
)
def test_a_named_sensor_is_asked_for_its_state_whatever_it_measures(sentence: str, name: str) -> None:
    assert _read(sentence) == [{"action_code": "query_state", "name_hint": name}]


@pytest.mark.parametrize("sentence", ["is anyone at home", "who is at home", "how many people are at home"])
def test_who_is_at_home_is_known_by_persons_where_the_home_has_them(sentence: str) -> None:
    assert _read(sentence) == [{"action_code": "query_state", "type_hint": "person"}]
    assert _read(sentence, Home("empty", []))[0]["type_hint"] == "presence"


def test_the_type_of_an_excluded_name_of_a_room_is_the_type_of_what_remains() -> None:
    expected = {
        "action_code": "turn_off",
        "type_hint": "light",
        "scope_exclude": ["Porch Light"],
        "quantifier": "except",
    }
    assert _read("everything but the porch light off") == [expected]
    assert _read("leave the porch light on and turn off the rest") == [expected]


def test_a_room_behind_an_excluded_name_is_the_room_of_the_command() -> None:
    expected = {
        "action_code": "turn_off",
        "scope_include": ["barn"],
        "scope_exclude": ["Stove"],
        "quantifier": "except",
    }
    assert _read("everything but the stove in the barn off") == [expected]


@pytest.mark.parametrize(
    "sentence",
    [
        "I'd appreciate it if you turned off Breezy",
        "it would be great if you turned Breezy off",
        "I'm going to bed, turn Breezy off",
        "leave the porch alone and turn off Breezy",
    ],
)
def test_courtesy_and_plans_change_no_command(sentence: str) -> None:
    assert _read(sentence)[-1]["action_code"] == "turn_off"
    assert _read(sentence)[-1]["name_hint"] == "Breezy"


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("extend the blinds", "open"),
        ("retract the blinds", "close"),
        ("turn the porch light all the way down", "set_brightness"),
        ("get Grandpa working", "start"),
    ],
)
def test_verbs_of_extent_and_of_what_a_device_does(sentence: str, code: str) -> None:
    [query] = _read(sentence)
    assert (query["action_code"], query.get("quantifier")) == (code, None)


@pytest.mark.parametrize(
    "remark",
    [
        *("sorry", "oh", "bedtime", "dinner's ready", "the sun is up", "so hot today", "too bright in the barn"),
        *("a bit chilly", "good night", "it smells in here", "I need to concentrate", "excuse me", "listen"),
    ],
)
@pytest.mark.parametrize("command", ["turn off Breezy", "dim the porch light"])
def test_a_remark_before_a_command_of_its_own_is_no_command(remark: str, command: str) -> None:
    assert _read(f"{remark}, {command}") == _read(command)


def test_an_unknown_name_before_a_verb_without_an_object_is_a_name() -> None:
    assert _read("gizmo, turn off")[0]["name_hint"] == "gizmo"


@pytest.mark.parametrize("command", ["turn off the lights in the barn", "turn it off", "lock the gate"])
@pytest.mark.parametrize(
    "courtesy",
    [
        *("you can {}", "might you {}", "could we {}", "could I ask you to {}", "I wonder if you could {}"),
        *("do you think you could {}", "any chance you could {}", "I was hoping you could {}", "feel free to {}"),
        *("when you have a moment, {}", "first, {}", "hmm {}", "we should {}", "is there any chance you would {}"),
    ],
)
def test_every_form_of_courtesy_leaves_the_command_as_it_is(courtesy: str, command: str) -> None:
    assert _read(courtesy.format(command)) == _read(command)
