"""Meanings of spoken commands and of descriptions of commands."""

import pytest

from skillbus.relevance.command_text import (
    build_command_aside_text,
    build_command_dense_texts,
    build_command_lexical_text,
    build_phrase_words,
    describe_meaning,
)
from skillbus.relevance.household.meaning import read_meaning


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("打开空气净化器", {"on", "open"}),
        ("把窗簾關上", {"close", "off"}),
        ("turn the heater off", {"off"}),
        ("make it louder", {"up"}),
        ("音量调低一点", {"down"}),
        ("设置温度", {"set"}),
        ("play the next song", {"next"}),
        ("取消静音", {"unmute"}),
        ("raise or lower the blinds", {"up", "down"}),
        ("toggle between on and off", {"toggle"}),
        ("窗帘开一半", {"set"}),
        ("open the shade to 30 percent", {"set"}),
        ("打开前门的锁", {"unlock"}),
        ("关上门锁", {"lock"}),
        ("设备", set()),
        ("Turn on one or more lamps", {"on"}),
        ("温度升高几度", {"up"}),
        ("切换", {"toggle"}),
        ("切换频道", {"set"}),
    ],
)
def test_the_action_of_a_text_is_read_in_both_languages_and_both_scripts(text: str, actions: set[str]) -> None:
    assert read_meaning(text).actions == actions


@pytest.mark.parametrize(
    "text",
    [
        "窗户关了没有",
        "灯亮不亮",
        "客厅几度",
        "查询门窗是否打开",
        "is the door locked",
        "how warm is it",
        "Check for smoke",
    ],
)
def test_a_question_reads_and_does_nothing_else(text: str) -> None:
    assert read_meaning(text).actions == {"read"}


@pytest.mark.parametrize("text", ["可以打开窗帘吗", "能不能把窗帘打开", "could you open the curtain"])
def test_a_request_in_the_form_of_a_question_is_none(text: str) -> None:
    assert "open" in read_meaning(text).actions


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("打开", "关闭设备", True),
        ("锁上", "解锁门锁", True),
        ("louder", "Turn the volume down", True),
        ("raise the blinds", "Close the curtain", True),
        ("打开", "读取温度", True),
        ("is the window open", "Open the window", True),
        ("打开", "开启设备", False),
        ("把音量调高", "设置音量", False),
        ("turn it on", "Toggle between on and off", False),
        ("红色", "关闭设备", False),
    ],
)
def test_opposite_actions_contradict_each_other(one: str, other: str, expected: bool) -> None:
    assert read_meaning(one).contradicts(read_meaning(other)) is expected
    assert read_meaning(other).contradicts(read_meaning(one)) is expected


@pytest.mark.parametrize(
    ("phrase", "command", "expected"),
    [
        ("启动", "Run the dishwashing programme", True),
        ("set brightness", "设置灯光亮度百分比", True),
        ("设置位置", "Set how far the shade is open in percent", True),
        ("set brightness", "Set the volume", False),
        ("打开窗帘", "打开设备", False),
        ("窗帘", "打开窗帘", False),
    ],
)
def test_a_command_fulfils_a_phrase_if_it_does_all_that_the_phrase_says(
    phrase: str, command: str, expected: bool
) -> None:
    assert read_meaning(phrase).is_fulfilled_by(read_meaning(command)) is expected


def test_texts_with_different_topics_are_elsewhere_and_texts_without_a_topic_are_not() -> None:
    assert read_meaning("打开窗帘").is_elsewhere(read_meaning("Turn the volume up"))
    assert not read_meaning("打开窗帘").is_elsewhere(read_meaning("Open the curtain"))
    assert not read_meaning("打开").is_elsewhere(read_meaning("Open the curtain"))
    assert not read_meaning("打开窗帘").is_elsewhere(read_meaning("Turn the device on"))


def test_words_of_both_languages_share_their_meanings() -> None:
    text = build_command_lexical_text({"zh": "调高音量"}, "audioVolume", "volumeUp").split()

    assert {"actionup", "topicvolume"} <= set(text)
    assert {"actionup", "topicvolume"} <= set(build_phrase_words("louder").split())


def test_each_description_is_embedded_alone_in_simplified_characters() -> None:
    assert build_command_dense_texts({"zh-TW": "開啟電燈", "en": "Turn on"}) == ("开启电灯", "turn on")
    assert build_command_dense_texts({"zh": "Mute", "en": "mute"}) == ("mute",)


def test_ids_are_split_into_words_and_name_topics_but_no_action() -> None:
    assert build_command_aside_text("windowShadeLevel", "set_shade_level") == "window shade level set shade level"
    assert describe_meaning({"en": "Do it"}, "audioVolume", "volumeDown").actions == frozenset()
    assert "volume" in describe_meaning({"en": "Do it"}, "audioVolume", "volumeDown").topics


@pytest.mark.parametrize("text", ["", " ", "💡💡", "'; DROP TABLE commands; --", "开" * 9_000, "or " * 3_000])
def test_any_text_has_a_meaning(text: str) -> None:
    read_meaning(text)
    build_phrase_words(text)
