"""Rules of the Chinese grammar about what a command means: rooms, kinds of rooms, units, and what 其他 leaves."""

from typing import Any, Final

import pytest

from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence
from skillbus.queryir.recall import recall_devices

from .homes import put_device

_INN: Final = Home(
    "民宿",
    [
        put_device("1", "福福", "大堂", "vacuum"),
        put_device("2", "小月亮", "主卧", "light", "夜灯"),
        put_device("3", "主卧灯", "主卧", "light"),
        put_device("4", "次卧灯", "次卧", "light"),
        put_device("5", "厨房灯", "厨房", "light"),
        put_device("6", "浴室灯", "浴室", "light"),
        put_device("7", "晾衣架", "阳台", "cover", "大手臂"),
        put_device("8", "主卧空调", "主卧", "climate"),
        put_device("9", "车库门", "车库", "garage"),
        put_device("10", "大门", "玄关", "lock", "入户门锁"),
        put_device("11", "暖房灯", "暖房", "light"),
        put_device("12", "一号教室灯", "一号教室", "light"),
        put_device("13", "二号教室灯", "二号教室", "light"),
        put_device("14", "看电影", None, "scene"),
    ],
)


def _read(sentence: str) -> list[dict[str, Any]]:
    queries = parse_sentence(sentence, _INN).queries
    return [one.model_dump(mode="json", exclude_defaults=True, exclude={"action", "confidence"}) for one in queries]


@pytest.mark.parametrize("question", ["哪一道门锁着", "哪几扇门锁着", "有多少道门锁着", "有几樘门是锁着的"])
def test_a_question_word_stands_before_every_word_for_a_unit(question: str) -> None:
    assert _read(question) == [{"action_code": "query_state", "type_hint": "lock"}]


@pytest.mark.parametrize("sentence", ["厨房浴室灯关掉", "厨房和浴室灯关掉", "厨房、浴室两个地方的灯关掉"])
def test_rooms_that_follow_each_other_are_a_list_and_their_number_counts_no_devices(sentence: str) -> None:
    assert _read(sentence) == [
        {"action_code": "turn_off", "type_hint": "light", "scope_include": ["厨房", "浴室"]},
    ]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("打开卧室的灯", ["2", "3", "4"]),
        ("教室的灯都打开", ["12", "13"]),
        ("除了教室和卧室的灯都打开", ["5", "6", "11"]),
    ],
)
def test_a_kind_of_room_means_all_rooms_of_that_kind_where_none_has_its_name(sentence: str, found: list[str]) -> None:
    query = parse_sentence(sentence, _INN).queries[0]
    assert [match.device.id for match in recall_devices(query, _INN).matches] == found


def test_the_door_of_a_garage_is_its_garage_door_and_not_a_lock() -> None:
    assert _read("把车库的门打开") == [{"action_code": "open", "type_hint": "garage"}]


@pytest.mark.parametrize("sentence", ["把大门的锁打开", "打开大门锁"])
def test_the_lock_of_a_named_door_is_opened_and_is_no_verb(sentence: str) -> None:
    assert _read(sentence) == [{"action_code": "unlock", "name_hint": "大门"}]


def test_of_two_names_that_overlap_the_earlier_is_meant() -> None:
    home = Home("家", [put_device("1", "大门", "玄关", "lock"), put_device("2", "门锁", "玄关", "lock")])
    [query] = parse_sentence("大门锁好了吗", home).queries
    assert (query.action_code, query.name_hint) == ("query_state", "大门")
    assert _read("大门锁好了吗") == [{"action_code": "query_state", "name_hint": "大门"}]


def test_a_type_that_is_joined_to_an_excluded_name_is_the_type_of_what_remains() -> None:
    fields = {"action_code": "turn_off", "scope_include": ["主卧"], "scope_exclude": ["小月亮"], "quantifier": "except"}
    assert _read("主卧除了小月亮的灯都关掉") == [fields | {"type_hint": "light"}]
    assert _read("主卧除了夜灯，别的电器都关掉") == [fields | {"scope_exclude": ["夜灯"]}]


def test_what_others_are_is_said_by_the_command_before_and_leaves_its_devices_out() -> None:
    on, off = _read("只开厨房的灯，其他都关掉")
    assert on == {"action_code": "turn_on", "type_hint": "light", "scope_include": ["厨房"]}
    assert off == {
        "action_code": "turn_off",
        "type_hint": "light",
        "scope_exclude": ["厨房"],
        "quantifier": "except",
    }


def test_a_room_whose_name_begins_with_a_mode_is_a_room() -> None:
    assert _read("打开暖房的灯") == [{"action_code": "turn_on", "type_hint": "light", "scope_include": ["暖房"]}]


@pytest.mark.parametrize(("sentence", "code"), [("大手臂降下来", "open"), ("把大手臂收起来", "close")])
def test_a_nickname_of_what_is_in_use_when_it_is_down_is_opened_by_lowering_it(sentence: str, code: str) -> None:
    assert _read(sentence) == [{"action_code": code, "name_hint": "大手臂"}]


def test_a_scene_whose_name_begins_with_a_verb_is_activated_by_its_name() -> None:
    assert _read("我要看电影") == [{"action_code": "activate", "name_hint": "看电影"}]


@pytest.mark.parametrize("sentence", ["空调都关掉，次卧的保持", "空调都关掉，次卧的保持着"])
def test_what_shall_stay_as_it_is_is_left_out(sentence: str) -> None:
    fields = {"action_code": "turn_off", "type_hint": "climate", "scope_exclude": ["次卧"], "quantifier": "except"}
    assert _read(sentence) == [fields]


def test_to_keep_a_value_is_to_set_it() -> None:
    assert _read("主卧空调保持26度")[0]["action_code"] == "set_temperature"
