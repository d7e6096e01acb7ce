"""Words that say which devices are meant: places that nobody knows limit a command, adjectives set nothing."""

import pytest

from skillbus.queryir.chinese.lexicon import load_lexicon
from skillbus.queryir.parser import parse_sentence
from skillbus.queryir.recall import recall_devices
from skillbus.queryir.writing import fold_name

from .homes import CHINESE_HOME


@pytest.mark.parametrize(
    ("sentence", "place"),
    [
        ("打开车棚的灯", "车棚"),
        ("关掉老王的灯", "老王"),
        ("把鱼缸的灯关了", "鱼缸"),
        ("打開車棚裡的燈", "車棚"),
        ("打开沙发旁边的灯", "沙发"),
        ("关掉老婆的灯", "老婆"),
        ("打开孩子的房间的灯", "孩子"),
        ("打开吧台的灯", "吧台"),
        ("turn on the lights at the bar", "bar"),
        ("turn off the lamps in the bar", "bar"),
    ],
)
def test_an_unknown_place_of_devices_is_a_doubtful_room_and_reaches_none(sentence: str, place: str) -> None:
    parsed = parse_sentence(sentence, CHINESE_HOME)
    (query,) = parsed.queries
    assert (query.type_hint, query.scope_include, query.name_hint) == ("light", (place,), None)
    assert query.confidence <= 0.7
    assert not parsed.unread
    assert not recall_devices(query, CHINESE_HOME).matches


@pytest.mark.parametrize(
    "sentence", ["孩子睡了，把灯关掉", "老婆，关灯", "客人走了，关掉灯", "把家里的灯关掉", "关掉现在的灯"]
)
def test_people_of_remarks_limit_nothing(sentence: str) -> None:
    (query,) = parse_sentence(sentence, CHINESE_HOME).queries
    assert (query.action_code, query.type_hint, query.scope_include) == ("turn_off", "light", ())
    assert recall_devices(query, CHINESE_HOME).matches


def test_bar_leaves_devices_out_where_it_is_no_noun() -> None:
    (query,) = parse_sentence("turn off all lights bar the bedroom").queries
    assert query.scope_exclude == ("bedroom",)


def test_each_word_of_the_chinese_lexicon_is_one_that_a_folded_sentence_can_have() -> None:
    assert [word for word in load_lexicon().words if fold_name(word) != word] == []


@pytest.mark.parametrize("sentence", ["关掉亮着的灯", "关掉最亮的灯", "把亮着的灯关掉", "關掉最大的燈"])
def test_an_adjective_that_describes_the_devices_sets_nothing(sentence: str) -> None:
    (query,) = parse_sentence(sentence, CHINESE_HOME).queries
    assert (query.action_code, query.type_hint) == ("turn_off", "light")
