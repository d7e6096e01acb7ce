"""Each rule of the grammar of docs/context.md, on sentences."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence

from .homes import CHINESE_HOME, put_device


def read(sentence: str, home: Home | None = CHINESE_HOME) -> list[dict[str, Any]]:
    """Return the fields that the queries of a sentence fill, without their action's word and their confidence."""
    parsed = parse_sentence(sentence, home)
    assert parsed.language == "zh"
    return [
        query.model_dump(mode="json", exclude_defaults=True, exclude={"action", "confidence"})
        for query in parsed.queries
    ]


def expect(code: str | None, **fields: Any) -> dict[str, Any]:
    return ({"action_code": code} if code else {}) | fields


ALL = {"type_hint": "light", "quantifier": "all"}


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("打开老伙计", expect("turn_on", name_hint="老伙计")),
        ("打开卧室的灯", expect("turn_on", type_hint="light", scope_include=["卧室"])),
        ("打开卧室灯", expect("turn_on", name_hint="卧室灯")),
        ("麻烦帮我把书房的灯打开一下", expect("turn_on", type_hint="light", scope_include=["书房"])),
        ("打開臥室的燈", expect("turn_on", type_hint="light", scope_include=["卧室"])),
        ("開啟客廳的冷氣", expect("turn_on", type_hint="climate", scope_include=["客厅"])),
        ("厕所的灯关了", expect("turn_off", type_hint="light", scope_include=["卫生间"])),
        ("把客厅和卧室的灯打开", expect("turn_on", type_hint="light", scope_include=["客厅", "卧室"])),
        ("书房的台灯关了", expect("turn_off", name_hint="书房台灯")),
        ("打开老火计", expect("turn_on", name_hint="老火计")),
        (
            "主卧空调26度",
            expect("set_temperature", type_hint="climate", scope_include=["主卧"], arguments={"temperature": 26}),
        ),
    ],
)
def test_a_name_stands_alone_and_else_room_and_type_say_the_devices(sentence: str, query: dict[str, Any]) -> None:
    assert read(sentence) == [query]


@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("关闭所有卧室的灯", {"quantifier": "all", "scope_include": ["卧室"]}),
        ("所有卧室灯关掉", {"quantifier": "all", "scope_include": ["卧室"]}),
        ("把灯全部关掉", {"quantifier": "all"}),
        ("灯都关了吧", {"quantifier": "all"}),
        ("随便关一盏灯", {"quantifier": "one"}),
        ("关掉一盏灯", {"quantifier": "one"}),
        ("关两盏灯", {"quantifier": "count", "arguments": {"count": 2}}),
        ("关几盏灯", {"quantifier": "some"}),
        ("关灯", {}),
    ],
)
def test_quantifiers(sentence: str, fields: dict[str, Any]) -> None:
    assert read(sentence) == [expect("turn_off", type_hint="light", **fields)]


@pytest.mark.parametrize(
    "sentence",
    [
        "关闭除卧室以外的灯",
        "關掉除了臥室以外的所有電燈",
        "除了卧室，其他灯都关掉",
        "除卧室外的灯全部关掉",
        "卧室以外的灯都关掉",
        "除了卧室的灯都关掉",
        "不要关卧室的灯，其他的灯都关掉",
        "别关卧室的，其他灯都关了",
        "只留卧室的灯，别的都关",
        "把灯都关了，卧室的除外",
        "关掉所有灯，除了卧室",
        "灯全关了，卧室的不要关",
    ],
)
def test_exclusions_in_all_their_forms_mean_the_same(sentence: str) -> None:
    assert read(sentence) == [expect("turn_off", type_hint="light", scope_exclude=["卧室"], quantifier="except")]


@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("关闭客厅除落地灯以外的灯", {"type_hint": "light", "scope_include": ["客厅"], "scope_exclude": ["落地灯"]}),
        ("卧室里除了空调都关掉", {"scope_include": ["卧室"], "scope_exclude": ["空调"]}),
        ("除了床头灯别的灯都关了", {"type_hint": "light", "scope_exclude": ["床头灯"]}),
        ("关掉除了客厅、卧室和书房以外的灯", {"type_hint": "light", "scope_exclude": ["客厅", "卧室", "书房"]}),
    ],
)
def test_names_types_and_several_rooms_can_be_left_out(sentence: str, fields: dict[str, Any]) -> None:
    assert read(sentence) == [expect("turn_off", quantifier="except", **fields)]


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("打开那个", expect("turn_on")),
        ("把它关了", expect("turn_off")),
        ("关掉刚才那个", expect("turn_off")),
        ("把刚刚打开的那个再关上", expect("turn_off")),
        ("那盏灯也关掉", expect("turn_off", type_hint="light")),
        ("它们都关掉", expect("turn_off", quantifier="all")),
    ],
)
def test_references(sentence: str, query: dict[str, Any]) -> None:
    assert read(sentence) == [query | {"references": ["last-mentioned"]}]


def test_a_demonstrative_before_a_name_or_room_is_no_reference() -> None:
    assert read("打开那个床头灯") == [expect("turn_on", name_hint="床头灯")]
    assert read("打开卧室那盏灯") == [expect("turn_on", type_hint="light", scope_include=["卧室"])]


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("打开客厅窗帘", "open"),
        ("把客厅窗帘拉上", "close"),
        ("关上燃气阀", "close"),
        ("打开大门锁", "unlock"),
        ("把大门锁了", "lock"),
        ("大门锁好", "lock"),
        ("关闭前门", "lock"),
        ("小旋风开始打扫", "start"),
        ("让扫地机器人回去充电", "dock"),
        ("观影模式", "activate"),
        ("打开观影模式", "activate"),
        ("电视静音", "mute"),
        ("暂停电视", "pause"),
    ],
)
def test_the_type_of_the_device_decides_what_a_verb_does(sentence: str, code: str) -> None:
    (query,) = read(sentence)
    assert query["action_code"] == code
    assert "name_hint" in query


@pytest.mark.parametrize(
    ("sentence", "code", "arguments"),
    [
        ("把床头灯调到50%", "set_brightness", {"brightness": 50}),
        ("床头灯调到三成", "set_brightness", {"brightness": 30}),
        ("床头灯调到最亮", "set_brightness", {"brightness": 100}),
        ("床头灯暗一点", "set_brightness", {"brightness_step": -10}),
        ("把床头灯调成暖黄色", "set_color", {"colour": "warm_yellow"}),
        ("床头灯换成暖光", "set_color_temperature", {"colour_temperature": 2700}),
        ("客厅空调设成二十六度半", "set_temperature", {"temperature": 26.5}),
        ("客厅空调调高两度", "set_temperature", {"temperature_step": 2}),
        ("客厅空调切换到制冷模式", "set_mode", {"mode": "cool"}),
        ("客厅窗帘开一半", "set_position", {"position": 50}),
        ("关闭客厅窗帘到百分之三十", "set_position", {"position": 30}),
        ("电视声音调到20", "set_volume", {"volume": 20}),
        ("电视声音小一点", "set_volume", {"volume_step": -10}),
        ("老伙计开三档", "set_speed", {"level": 3}),
        ("加湿器调到60%", "set_humidity", {"humidity": 60}),
        ("五分钟后关掉床头灯", "turn_off", {"after_s": 300}),
        ("晚上八点半打开床头灯", "turn_on", {"at": "20:30"}),
        ("打开床头灯半小时", "turn_on", {"for_s": 1800}),
    ],
)
def test_values_of_actions(sentence: str, code: str, arguments: dict[str, Any]) -> None:
    (query,) = read(sentence)
    assert query["action_code"] == code
    assert query["arguments"] == arguments
    assert "name_hint" in query


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("书房的灯开着吗", expect("query_state", type_hint="light", scope_include=["书房"])),
        ("哪些灯还开着", expect("query_state", type_hint="light")),
        ("客厅所有的窗帘都开着吗", expect("query_state", type_hint="cover", scope_include=["客厅"])),
        ("有没有门没锁？", expect("query_state", type_hint="lock")),
        ("床头灯关了没有", expect("query_state", name_hint="床头灯")),
        ("卧室现在多少度", expect("query_temperature", scope_include=["卧室"])),
        ("厨房漏水了吗", expect("query_state", type_hint="moisture", scope_include=["厨房"])),
        ("能把床头灯关了吗", expect("turn_off", name_hint="床头灯")),
    ],
)
def test_questions_ask_and_polite_requests_do_not(sentence: str, query: dict[str, Any]) -> None:
    assert read(sentence) == [query]


@pytest.mark.parametrize(
    ("sentence", "codes"),
    [
        ("打开客厅灯，然后把卧室空调调到26度", ["turn_on", "set_temperature"]),
        ("关掉客厅灯再打开卧室灯", ["turn_off", "turn_on"]),
        ("客厅灯打开卧室灯关掉", ["turn_on", "turn_off"]),
        ("打开客厅灯和卧室灯", ["turn_on", "turn_on"]),
        ("把电视打开，声音调到30", ["turn_on", "set_volume"]),
        ("把浴霸打开，有点冷", ["turn_on"]),
        ("我回来了，打开床头灯", ["turn_on"]),
        ("卧室太亮了，灯暗一点", ["set_brightness"]),
        ("别关灯", []),
        ("要不关灯", ["turn_off"]),
        ("浴霸给我摁灭", ["turn_off"]),
        ("空调别吹了", ["turn_off"]),
        ("音箱别再唱了", ["pause"]),
        ("扫地机器人别扫了，打开客厅灯", ["stop", "turn_on"]),
        ("客厅灯别关了，把电视打开", ["turn_on"]),
        ("把电视开回来", ["turn_on"]),
        ("门锁给我开个锁", ["unlock"]),
    ],
)
def test_a_sentence_has_one_query_for_each_command(sentence: str, codes: list[str]) -> None:
    assert [query.get("action_code") for query in read(sentence)] == codes


def test_a_second_command_without_a_device_means_the_same_devices() -> None:
    first, second = read("把电视打开，声音调到30")
    assert first["name_hint"] == second["name_hint"] == "电视"


def test_a_reason_gives_its_room_to_the_command() -> None:
    (query,) = read("卧室太亮了，灯暗一点")
    assert query["scope_include"] == ["卧室"]


def test_names_come_back_in_the_spelling_of_the_home() -> None:
    home = Home("家", [put_device("1", "臥室檯燈", "臥室", "light")])
    assert read("打开卧室台灯", home) == [expect("turn_on", name_hint="臥室檯燈")]
    assert read("打开卧室的灯", home) == [expect("turn_on", type_hint="light", scope_include=["臥室"])]


def test_a_lamp_whose_name_is_a_verb_is_a_name_beside_another_verb() -> None:
    home = Home("家", [put_device("1", "打开", "客厅", "light"), put_device("2", "灯二", "客厅", "light")])
    assert read("关掉打开", home) == [expect("turn_off", name_hint="打开")]
    assert read("打开打开", home) == [expect("turn_on", name_hint="打开")]
    assert read("打开灯二", home) == [expect("turn_on", name_hint="灯二")]


def test_a_room_named_like_a_device_is_a_room_before_a_type() -> None:
    home = Home("家", [put_device("1", "书房", "卧室", "light"), put_device("2", "台灯", "书房", "light")])
    assert read("打开书房的灯", home) == [expect("turn_on", type_hint="light", scope_include=["书房"])]
    assert read("打开书房", home) == [expect("turn_on", name_hint="书房")]


def test_without_a_home_common_words_are_enough() -> None:
    assert read("打开老伙计", None) == [expect("turn_on", name_hint="老伙计")]
    assert read("关闭所有卧室的灯", None) == [expect("turn_off", scope_include=["卧室"], **ALL)]


def test_what_nobody_understands_lowers_the_confidence() -> None:
    sure, unsure = parse_sentence("打开床头灯", CHINESE_HOME), parse_sentence("打开老火计", CHINESE_HOME)
    assert sure.queries[0].confidence == 1.0
    assert unsure.queries[0].confidence < sure.queries[0].confidence
    assert parse_sentence("噼里啪啦", CHINESE_HOME).unread or not parse_sentence("噼里啪啦", CHINESE_HOME).queries


_WORDS = (
    *[
        "打开",
        "关",
        "把",
        "灯",
        "卧室",
        "的",
        "除了",
        "以外",
        "不要",
        "其他",
        "都",
        ",",
        "然后",
        "再",
        "那个",
        "它",
        "吗",
        "没",
        "几",
        "一半",
        "50%",
        "26度",
        "模式",
        "两",
        "点",
    ],
    *[
        "床头灯",
        "客厅",
        "和",
        "只留",
        "🙂",
        "SELECT",
        ";",
        "--",
        "0",
        "９",
        "调到",
        "亮",
        "太",
        "了",
        "五分钟后",
        "半",
        "百分之",
        "第",
        "十十",
        "1e999",
        "播放",
    ],
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_WORDS), max_size=60).map("".join)))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for home in (CHINESE_HOME, None):
        parsed = parse_sentence(text, home)
        assert len(parsed.queries) <= 8


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("所有窗帘都合上，客厅的别动", expect("close", type_hint="cover", scope_exclude=["客厅"], quantifier="except")),
        ("客厅的灯都亮着干嘛，全关了", expect("turn_off", scope_include=["客厅"], **ALL)),
        ("把卧室的灯打开就行", expect("turn_on", type_hint="light", scope_include=["卧室"])),
        ("扫一遍地", expect("start", type_hint="vacuum")),
        ("把晾衣架收起来", expect("close", type_hint="cover")),
        ("把窗帘收起来", expect("open", type_hint="cover")),
        ("窗帘放下来", expect("close", type_hint="cover")),
    ],
)
def test_one_command_may_have_more_clauses_and_verbs(sentence: str, query: dict[str, Any]) -> None:
    assert read(sentence) == [query]


def test_what_was_mentioned_can_be_left_out() -> None:
    expected = expect("turn_off", type_hint="light", quantifier="except", references=["last-mentioned"])
    assert read("除了这个，别的灯都关掉") == [expected]


def test_unknown_names_beside_known_ones_are_names_too() -> None:
    assert [query["name_hint"] for query in read("打开老火计和床头灯")] == ["老火计", "床头灯"]


@pytest.mark.parametrize(
    ("sentence", "query"),
    [
        ("把卧室灯调成夜灯模式", expect("set_mode", name_hint="卧室灯", arguments={"mode": "夜灯"})),
        ("卧室空调观影模式", expect("set_mode", name_hint="卧室空调", arguments={"mode": "movie"})),
        (
            "卧室空调调到制热26度",
            expect("set_temperature", name_hint="卧室空调", arguments={"temperature": 26, "mode": "heat"}),
        ),
        ("电视转到53台", expect("set_channel", name_hint="电视", arguments={"channel": "53"})),
        ("叫扫地机器人别扫了", expect("stop", name_hint="扫地机器人")),
        ("停止扫地", expect("stop", type_hint="vacuum")),
        ("打开一樓的燈", expect("turn_on", type_hint="light", scope_include=["一樓"])),
        ("可不可以帮我看一下床头灯有没有关", expect("query_state", name_hint="床头灯")),
    ],
)
def test_modes_channels_ends_and_places_that_the_home_does_not_know(sentence: str, query: dict[str, Any]) -> None:
    assert read(sentence) == [query]


def test_a_condition_is_not_read_and_leaves_little_confidence() -> None:
    (query,) = parse_sentence("如果客厅有人就打开电视", CHINESE_HOME).queries
    assert query.confidence <= 0.5


@pytest.mark.parametrize(
    "part", ["打开", "再开", "别打开了", "不要关灯，", "除了卧室", "卧室和", "1", "🙂", "SELECT * FROM devices; "]
)
def test_the_time_of_a_chinese_text_grows_with_its_length(part: str) -> None:
    def measure(length: int) -> float:
        text = (part * length)[:length]
        started = time.process_time()
        assert len(parse_sentence(text, CHINESE_HOME).queries) <= 8
        return time.process_time() - started

    measure(200)
    short = min(measure(500) for _ in range(3))
    assert min(measure(5_000) for _ in range(2)) < 30 * short + 0.05
