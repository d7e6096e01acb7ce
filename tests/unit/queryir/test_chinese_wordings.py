"""A command means the same in each wording: order, polite forms, greetings, reasons, tags, and both scripts."""

from typing import Final

import pytest

from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.queryir.parser import parse_sentence

from .homes import CHINESE_HOME

_DEVICES: Final = (
    *("客厅的灯", "床头灯", "老伙计", "客厅和书房的灯", "所有的灯", "客厅所有的灯", "除了卧室以外的灯", "卧室以外的灯"),
    *("除床头灯之外的灯", "那个", "刚才那个", "那盏灯", "任意一盏灯", "每个房间的空调", "家里的灯", "卧室那盏灯"),
)
_ORDERS: Final = (
    *("把{device}{verb}", "{device}{verb}", "将{device}{verb}", "帮我把{device}给{verb}", "{device}给我{verb}"),
    *(
        "麻烦{verb}一下{device}",
        "能不能把{device}{verb}",
        "能{verb}{device}吗",
        "{device}可以{verb}吗",
        "{device}，{verb}",
    ),
    *("我想{verb}{device}", "把{device}{verb}好吗", "{verb}{device}，谢谢", "嘿，{verb}{device}", "先把{device}{verb}"),
    *(
        "{verb}{device}，快点",
        "我回来了，{verb}{device}",
        "太晚了，{verb}{device}",
        "{verb}{device}就行",
        "外面下雨了，{verb}{device}",
    ),
    *("{verb}{device}，听到没有", "那个，请{verb}{device}", "{verb}{device}，我要出门了"),
)
_EXCLUSIONS: Final = (
    *(
        "除了{place}，其他灯都{verb}",
        "除{place}外，所有灯{verb}",
        "{verb}除了{place}之外的所有灯",
        "{place}以外的灯全部{verb}",
    ),
    *(
        "把灯都{verb}，除了{place}",
        "把灯都{verb}，{place}除外",
        "所有灯{verb}，{place}的别动",
        "{place}不用管，别的灯都{verb}",
    ),
    *(
        "只留{place}，其他的灯都{verb}",
        "其他灯都{verb}，{place}留着",
        "不要{verb}{place}，其他灯都{verb}",
        "灯除了{place}都{verb}",
    ),
    *("把灯{verb}，{place}的不用{verb}", "{verb}所有灯，{place}就算了", "其他的灯{verb}，{place}保持不变"),
)
_SETTINGS: Final = (
    (
        "把床头灯调到50%",
        ("床头灯亮度五成", "将床头灯亮度设置为百分之五十", "床头灯调到一半亮度", "設定床頭燈亮度為50%"),
    ),
    ("床头灯亮一点", ("床头灯太暗了，调亮点", "提高床头灯的亮度", "让床头灯再亮一些")),
    ("把床头灯调成红色", ("床头灯变红", "床头灯颜色设为红色", "让床头灯变成红色的")),
    ("客厅空调调到26度", ("客厅空调26度", "将客厅空调的温度调成二十六度", "客厅空调打到26度", "客厅空调调至26℃")),
    ("电视声音大一点", ("电视大声点", "电视太小声了，大声点", "提高电视的音量")),
    ("客厅窗帘开一半", ("客厅窗帘打开50%", "把客厅窗帘拉到一半", "客廳窗簾開五成", "客厅窗帘半开")),
    ("客厅空调切到制冷模式", ("客厅空调制冷", "客厅空调开启制冷模式", "客厅空调模式改成制冷")),
    ("床头灯开着吗", ("床头灯关了没", "床头灯是不是开着", "查一下床头灯的状态", "床头灯有没有关", "床頭燈還開著嗎")),
)


def read_one(sentence: str) -> QueryIR:
    """Return the only query of a sentence, without its confidence."""
    (query,) = parse_sentence(sentence, CHINESE_HOME).queries
    return query.model_copy(update={"confidence": 1.0})


@pytest.mark.parametrize("verb", ["打开", "关掉", "關閉"])
@pytest.mark.parametrize("order", _ORDERS)
def test_order_courtesy_and_remarks_do_not_change_a_command(order: str, verb: str) -> None:
    for device in _DEVICES:
        assert read_one(order.format(verb=verb, device=device)) == read_one(verb + device)


@pytest.mark.parametrize("wording", _EXCLUSIONS)
@pytest.mark.parametrize("place", ["卧室", "卧室和书房", "床头灯"])
def test_every_wording_of_an_exclusion_means_the_same(wording: str, place: str) -> None:
    for verb in ("打开", "关掉"):
        assert read_one(wording.format(verb=verb, place=place)) == read_one(f"{verb}除{place}以外的灯")


@pytest.mark.parametrize(("sentence", "wordings"), _SETTINGS)
def test_every_wording_of_a_setting_or_question_means_the_same(sentence: str, wordings: tuple[str, ...]) -> None:
    for wording in wordings:
        assert read_one(wording) == read_one(sentence)


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("加湿器加点儿水", "start"),
        ("别让扫地机器人工作", "stop"),
        ("老伙计帮我开着", "turn_on"),
        ("扫地机器人别扫了，回去吧", "dock"),
        ("客厅窗帘落下来", "close"),
        ("大门没锁吧", "query_state"),
        ("客厅的灯关掉一半", "turn_off"),
        ("客厅窗帘别开太大，开个两成", "set_position"),
        ("忘了关灯", None),
        ("别忘了关灯", "turn_off"),
        ("客厅的灯太亮了", None),
        ("空调太冷了", None),
        ("帮我看看灯是不是开着", "query_state"),
    ],
)
def test_verbs_are_understood_in_colloquial_forms(sentence: str, code: str | None) -> None:
    """Verbs parted from their objects, causatives, and what shall end or stay as it is."""
    assert [query.action_code for query in parse_sentence(sentence, CHINESE_HOME).queries] == [code]


@pytest.mark.parametrize("sentence", ["关掉我房间的灯", "把第二台空调关掉"])
def test_a_reading_that_leaves_a_choice_open_is_not_sure(sentence: str) -> None:
    """The room of a speaker who is not known, and a device told by its number."""
    assert [query.confidence <= 0.6 for query in parse_sentence(sentence, CHINESE_HOME).queries] == [True]


@pytest.mark.parametrize("rest", ["其他的都关", "其他的灯都关掉", "其他灯全关掉", "全关掉", "都关掉", "所有灯都关掉"])
@pytest.mark.parametrize("spared", ["客厅灯别关", "客厅灯别关了", "客厅灯不要关了"])
def test_a_device_that_stays_on_is_left_out_of_what_is_turned_off(spared: str, rest: str) -> None:
    (query,) = parse_sentence(f"{spared}，{rest}", CHINESE_HOME).queries
    assert (query.action_code, query.quantifier, query.scope_exclude) == ("turn_off", "except", ("客厅灯",))


@pytest.mark.parametrize("wording", ["加湿器加点儿水", "加湿器加一下水", "加湿器加壶水", "加湿器加个水"])
def test_a_measure_may_part_a_verb_from_its_object(wording: str) -> None:
    assert read_one(wording) == read_one("加湿器加水")


@pytest.mark.parametrize(("sentence", "channel"), [("电视换到第二台", True), ("打开第二台空调", False)])
def test_a_numbered_device_is_a_channel_only_of_a_television(sentence: str, channel: bool) -> None:
    (query,) = parse_sentence(sentence, CHINESE_HOME).queries
    assert (query.arguments.channel is not None) is channel
