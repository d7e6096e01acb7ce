"""Each rule of the English grammar of docs/context.md, on sentences."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.query_ir import MAX_QUERIES, QueryIR
from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence


def put_device(identifier: str, name: str, room: str | None, kind: str, *aliases: str) -> Device:
    """Return a device of the home."""
    return Device(home="flat", id=identifier, name=name, aliases=aliases, room=room, type=kind)


FLAT = Home(
    "flat",
    [
        put_device("1", "Big Bertha", "lounge", "fan"),
        put_device("2", "Reading Lamp", "lounge", "light", "sofa light"),
        put_device("3", "Lounge Light", "lounge", "light"),
        put_device("4", "Media Wall", "lounge", "tv", "telly"),
        put_device("5", "Patio Door", "lounge", "lock"),
        put_device("6", "Pantry Light", "pantry", "light"),
        put_device("7", "Dusty", "pantry", "vacuum"),
        put_device("8", "Loft AC", "loft", "climate"),
        put_device("9", "Loft Shutters", "loft", "cover"),
        put_device("10", "Left Drape", "loft", "cover"),
        put_device("11", "Bedtime", None, "scene"),
        put_device("12", "Boiler CO2 sensor", None, "sensor"),
        put_device("13", "Light", "pantry", "sensor"),
        put_device("14", "Sunrise Corner", "lounge", "light"),
        put_device("15", "Dishwasher", "pantry", "appliance"),
        put_device("16", "Awning", "terrace", "cover"),
        put_device("17", "Going Out", None, "scene"),
    ],
)


def read(sentence: str, home: Home | None = FLAT) -> list[dict[str, Any]]:
    """Return the fields that the queries of a sentence fill, without their action's word and their confidence."""
    parsed = parse_sentence(sentence, home)
    assert parsed.language == "en"
    return [
        query.model_dump(mode="json", exclude_defaults=True, exclude={"action", "confidence"})
        for query in parsed.queries
    ]


def expect(code: str | None, **fields: Any) -> dict[str, Any]:
    """Return the fields of a query."""
    return ({"action_code": code} if code else {}) | fields


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("turn on Big Bertha", expect("turn_on", name_hint="Big Bertha")),
        ("the sofa light off please", expect("turn_off", name_hint="sofa light")),
        ("close the drape left", expect("close", name_hint="Left Drape")),
        ("switch the sunrise corner lamp off", expect("turn_off", name_hint="Sunrise Corner")),
        ("turn on the lights in the pantry", expect("turn_on", type_hint="light", scope_include=["pantry"])),
        ("turn on the pantry light", expect("turn_on", name_hint="Pantry Light")),
        ("turn on the pantry lights", expect("turn_on", type_hint="light", scope_include=["pantry"])),
        ("turn off the light in the pantry", expect("turn_off", type_hint="light", scope_include=["pantry"])),
        ("shut the blinds upstairs", expect("close", type_hint="cover", scope_include=["upstairs"])),
        ("lounge and loft lights on", expect("turn_on", type_hint="light", scope_include=["lounge", "loft"])),
        (
            "lights on in the lounge, the loft and the pantry",
            expect("turn_on", type_hint="light", scope_include=["lounge", "loft", "pantry"]),
        ),
    ],
)
def test_a_name_stands_alone_and_else_room_and_type_say_the_devices(sentence: str, query: dict[str, Any]) -> None:
    assert read(sentence) == [query]


@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("turn off every lamp", {"quantifier": "all"}),
        ("turn the lamps off throughout the house", {"quantifier": "all"}),
        ("turn on any lamp", {"quantifier": "one"}),
        ("turn on a lamp", {"quantifier": "one"}),
        ("turn on some lamps", {"quantifier": "some"}),
        ("turn on two lamps", {"quantifier": "count", "arguments": {"count": 2}}),
        ("turn on a couple of lamps", {"quantifier": "count", "arguments": {"count": 2}}),
        ("turn on the lamp", {}),
    ],
)
def test_english_quantifiers(sentence: str, fields: dict[str, Any]) -> None:
    query = read(sentence)[0]
    assert query["type_hint"] == "light"
    assert {key: value for key, value in query.items() if key in ("quantifier", "arguments")} == fields


@pytest.mark.parametrize(
    "sentence",
    [
        "turn off all lights except the loft",
        "turn all the lights off but the loft",
        "everything but the loft lamp off",
        "except for the loft, turn off all lights",
        "all lights off apart from those in the loft",
        "leave the loft light on and turn off all the others",
        "turn off all the lights but leave the loft on",
        "don't turn off the loft lights, switch all other lights off",
        "with the exception of the loft, switch all lights off",
    ],
)
def test_english_exclusions_in_all_their_forms_mean_the_same(sentence: str) -> None:
    assert read(sentence) == [expect("turn_off", type_hint="light", scope_exclude=["loft"], quantifier="except")]


@pytest.mark.parametrize(
    "sentence", ["turn it off", "switch that one off", "turn them off again", "turn the same ones off", "turn that off"]
)
def test_a_pronoun_is_a_reference(sentence: str) -> None:
    assert read(sentence) == [expect("turn_off", references=["last-mentioned"])]


def test_a_pronoun_for_a_device_of_the_same_sentence_is_that_device() -> None:
    assert read("turn on the reading lamp and then set it to 40%") == [
        expect("turn_on", name_hint="Reading Lamp"),
        expect("set_brightness", name_hint="Reading Lamp", arguments={"brightness": 40.0}),
    ]


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("open the reading lamp", "turn_on"),
        ("open the patio door", "unlock"),
        ("turn off the loft shutters", "close"),
        ("activate bedtime", "activate"),
        ("turn on bedtime", "activate"),
        ("start dusty", "start"),
        ("dusty go home", "dock"),
        ("start Big Bertha", "turn_on"),
        ("raise the loft shutters", "open"),
        ("lock the doors", "lock"),
        ("unpause the telly", "play"),
        ("next song on the telly", "next"),
        ("get the dishwasher going", "start"),
        ("get dusty started", "start"),
        ("activate going out", "activate"),
        ("bring the awning in", "close"),
        ("roll the awning out", "open"),
        ("roll out the awning", "open"),
        ("reel the awning in", "close"),
        ("roll the loft shutters up", "open"),
        ("put the awning down", "close"),
        ("turn it all off", "turn_off"),
        ("what is going on in the pantry", "query_state"),
        ("is the dishwasher running", "query_state"),
        ("is dusty going?", "query_state"),
        ("has the dishwasher started", "query_state"),
    ],
)
def test_verb_and_device_decide_the_action(sentence: str, code: str) -> None:
    assert read(sentence)[0]["action_code"] == code


@pytest.mark.parametrize(
    "sentence",
    [
        "the dishwasher is running",
        "keep Big Bertha running",
        "give me some music",
        "I need some light",
        "get rid of it",
    ],
)
def test_a_wish_or_a_description_turns_nothing_on_or_off(sentence: str) -> None:
    codes = {query.get("action_code") for query in read(sentence)}
    assert codes.isdisjoint({"turn_on", "turn_off", "start"})


@pytest.mark.parametrize(
    ("sentence", "code", "thing"),
    [
        ("don't turn off the lounge light, just the reading lamp", "turn_off", "Reading Lamp"),
        ("don't open the left drape, only close the loft shutters", "close", "Loft Shutters"),
        ("I don't want Big Bertha on", "turn_off", "Big Bertha"),
        ("we don't need the loft shutters open", "close", "Loft Shutters"),
    ],
)
def test_what_is_not_wanted_ends_and_a_correction_says_what_is_meant(sentence: str, code: str, thing: str) -> None:
    (query,) = parse_sentence(sentence, FLAT).queries
    assert (query.action_code, query.name_hint) == (code, thing)


def test_a_wish_for_light_turns_it_on_and_what_is_kept_running_is_left_out() -> None:
    (wish,) = parse_sentence("give me some light in the pantry", FLAT).queries
    assert (wish.action_code, wish.type_hint, wish.scope_include) == ("turn_on", "light", ("pantry",))
    (rest,) = parse_sentence("keep Big Bertha running but turn off the rest of the lounge", FLAT).queries
    assert (rest.action_code, rest.scope_exclude) == ("turn_off", ("Big Bertha",))


@pytest.mark.parametrize("place", ["in my room", "in our room", "in my own room"])
def test_the_room_of_a_speaker_who_is_not_known_leaves_a_question(place: str) -> None:
    (query,) = parse_sentence(f"turn off the lights {place}", FLAT).queries
    assert (query.action_code, query.confidence <= 0.6) == ("turn_off", True)


def test_my_room_is_a_room_where_the_home_has_one_of_that_name() -> None:
    home = Home("flat", [put_device("1", "Lamp", "My Room", "light"), put_device("2", "Spot", "Hall", "light")])
    (query,) = parse_sentence("turn off the lights in my room", home).queries
    assert (query.scope_include, query.confidence) == (("My Room",), 1.0)


def test_a_door_of_a_garage_and_a_window_are_no_curtains_where_the_home_has_them() -> None:
    assert read("open the garage")[0]["type_hint"] == "garage"
    assert read("close the windows")[0]["type_hint"] == "cover"
    home = Home("flat", [put_device("1", "Skyline", "loft", "window"), put_device("2", "Big One", None, "garage_door")])
    assert read("open the garage door", home)[0]["type_hint"] == "garage_door"
    assert read("close the windows", home)[0]["type_hint"] == "window"


@pytest.mark.parametrize(
    ("sentence", "code", "arguments"),
    [
        ("set the reading lamp to thirty five percent", "set_brightness", {"brightness": 35.0}),
        ("dim the reading lamp by 20%", "set_brightness", {"brightness_step": -20.0}),
        ("reading lamp at full brightness", "set_brightness", {"brightness": 100.0}),
        ("make the reading lamp dark blue", "set_color", {"colour": "dark_blue"}),
        ("reading lamp to 3000 kelvin", "set_color_temperature", {"colour_temperature": 3000.0}),
        ("set the loft ac to 75 degrees fahrenheit", "set_temperature", {"temperature": 23.9}),
        ("set the loft ac to 21.5", "set_temperature", {"temperature": 21.5}),
        ("make the loft ac warmer", "set_temperature", {"temperature_step": 1.0}),
        ("set the loft ac to cool", "set_mode", {"mode": "cool"}),
        ("open the loft shutters halfway", "set_position", {"position": 50.0}),
        ("turn the telly down a bit", "set_volume", {"volume_step": -10.0}),
        ("turn on Big Bertha for ten minutes", "turn_on", {"for_s": 600.0}),
        ("turn off the telly in half an hour", "turn_off", {"after_s": 1800.0}),
        ("at half past seven in the evening turn on the telly", "turn_on", {"at": "19:30"}),
        ("turn on the telly at 6:45 am", "turn_on", {"at": "06:45"}),
    ],
)
def test_english_values_of_actions(sentence: str, code: str, arguments: dict[str, Any]) -> None:
    (query,) = read(sentence)
    assert query["action_code"] == code
    assert query["arguments"] == arguments


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("which lights are on in the pantry", expect("query_state", type_hint="light", scope_include=["pantry"])),
        ("is the patio door locked?", expect("query_state", name_hint="Patio Door")),
        ("are all the doors locked", expect("query_state", type_hint="lock", quantifier="all")),
        ("are any windows open", expect("query_state", type_hint="window")),
        ("is there any motion in the lounge", expect("query_state", type_hint="motion", scope_include=["lounge"])),
        ("is the carpet wet", expect("query_state", type_hint="moisture")),
        ("is anyone in the loft", expect("query_state", type_hint="occupancy", scope_include=["loft"])),
        ("what's the CO2 level of the boiler", expect("query_state", name_hint="Boiler CO2 sensor")),
        ("how warm is it in the loft", expect("query_temperature", scope_include=["loft"])),
        ("temperature in the loft", expect("query_temperature", scope_include=["loft"])),
        ("is there a light on in the pantry", expect("query_state", type_hint="light", scope_include=["pantry"])),
        ("could you turn on the reading lamp?", expect("turn_on", name_hint="Reading Lamp")),
    ],
)
def test_english_questions_ask_and_polite_requests_do_not(sentence: str, query: dict[str, Any]) -> None:
    (asked,) = read(sentence)
    asked.pop("quantifier", None)
    query.pop("quantifier", None)
    assert asked == query


def test_an_english_sentence_has_one_query_for_each_command() -> None:
    queries = read("turn on the reading lamp, lock the patio door and then close the loft shutters")
    assert [query["action_code"] for query in queries] == ["turn_on", "lock", "close"]


@pytest.mark.parametrize(
    "sentence",
    [
        "I'm freezing, turn Big Bertha off",
        "it's getting cold, turn Big Bertha off",
        "turn Big Bertha off because it's cold",
        "time for bed, turn Big Bertha off",
        "would you mind turning Big Bertha off",
        "Big Bertha, turn it off",
        "could Big Bertha be switched back off?",
    ],
)
def test_reasons_and_polite_forms_change_no_command(sentence: str) -> None:
    assert read(sentence) == [expect("turn_off", name_hint="Big Bertha")]


def test_a_reason_gives_its_room_to_an_english_command() -> None:
    assert read("the loft is too bright, dim the lights")[0]["scope_include"] == ["loft"]


@pytest.mark.parametrize(
    "sentence", ["turn off all lights except that one", "leave it on and turn off all other lights"]
)
def test_what_was_mentioned_can_be_left_out_in_english(sentence: str) -> None:
    left_out = {"type_hint": "light", "quantifier": "except", "references": ["last-mentioned"]}
    assert read(sentence) == [expect("turn_off", **left_out)]


@pytest.mark.parametrize(
    "sentence", ["turn off the lamp I just mentioned", "turn off this lamp", "that lamp, switch it off"]
)
def test_a_pronoun_may_say_its_type(sentence: str) -> None:
    assert read(sentence) == [expect("turn_off", type_hint="light", references=["last-mentioned"])]


def test_a_question_mark_makes_a_question_of_a_sentence_without_a_verb() -> None:
    assert read("lights on in the loft?") == [expect("query_state", type_hint="light", scope_include=["loft"])]


def test_a_lamp_whose_name_is_a_verb_is_a_name_beside_another_verb_of_english() -> None:
    home = Home("flat", [put_device("1", "Open", "hall", "light")])
    assert read("turn on open", home) == [expect("turn_on", name_hint="Open")]


@pytest.mark.parametrize("names", [("My Phone", "Phone"), ("Phone", "My Phone")])
def test_the_longest_name_wins_even_if_it_begins_with_an_article(names: tuple[str, str]) -> None:
    home = Home("flat", [put_device(name, name, None, "sensor") for name in names])
    assert read("what is the battery level of my phone", home)[0]["name_hint"] == "My Phone"
    assert read("what is the battery level of the phone", home)[0]["name_hint"] == "Phone"


def test_without_a_home_an_unknown_name_is_a_guess() -> None:
    (query,) = parse_sentence("turn on old buddy").queries
    assert query.name_hint == "old buddy"
    assert query.confidence < parse_sentence("turn on the lights").queries[0].confidence


_WORDS = """
turn on off the lights in except kitchen and it all but , . ? ' half to 50 % at 7 pm not leave is which by a two minutes
for point minus degrees mode warm white lounge Dusty 客厅 😀 <script> -- ' OR 1=1
"""
_TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_WORDS.split()), max_size=40).map(" ".join))


@settings(max_examples=150, deadline=None)
@given(_TEXTS)
def test_any_english_text_is_read_without_an_error(text: str) -> None:
    queries = parse_sentence(f"please {text}", FLAT).queries
    assert len(queries) <= MAX_QUERIES
    for query in queries:
        assert QueryIR.model_validate(query.model_dump()) == query


@pytest.mark.parametrize(
    "part", ["turn on the lights and ", "a ", "minus ", "except the loft, ", "7 to ", "( ", "light "]
)
def test_the_time_of_an_english_sentence_grows_with_its_length(part: str) -> None:
    def measure(length: int) -> float:
        text = (part * (length // len(part) + 1))[:length]
        started = time.process_time()
        parse_sentence(text, FLAT)
        return time.process_time() - started

    measure(200)
    short = min(measure(1_000) for _ in range(3))
    assert min(measure(8_000) for _ in range(2)) < 40 * short + 0.05


@pytest.mark.parametrize("sentence", ["<script>alert(1)</script>", "DROP TABLE lights; --", '{"action": "on"}'])
def test_a_text_with_signs_of_code_is_never_read_with_confidence(sentence: str) -> None:
    assert all(query.confidence <= 0.5 for query in parse_sentence(sentence, FLAT).queries)


@pytest.mark.parametrize(
    ("sentence", "sure"),
    [
        ("if it rains close the curtains", False),
        ("close the curtains when it gets dark", False),
        ("if you can, close the curtains", True),
        ("tell me if the curtains are closed", True),
    ],
)
def test_a_condition_costs_half_of_the_confidence(sentence: str, sure: bool) -> None:
    (query,) = parse_sentence(sentence, FLAT).queries
    assert (query.confidence > 0.6) is sure
