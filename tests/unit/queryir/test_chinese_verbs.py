"""Rules of the Chinese grammar about verbs: stations, muting, too much of something, reasons, requests to stay."""

import pytest

from skillbus.queryir.parser import parse_sentence

from .homes import CHINESE_HOME


def _list_codes(sentence: str) -> list[str | None]:
    return [query.action_code for query in parse_sentence(sentence, CHINESE_HOME).queries]


@pytest.mark.parametrize(
    ("sentence", "code"),
    [("电视下一台", "next"), ("电视换下一个频道", "next"), ("电视上一个台", "previous"), ("电视上个频道", "previous")],
)
def test_the_next_station_is_next_and_counts_nothing(sentence: str, code: str) -> None:
    [query] = parse_sentence(sentence, CHINESE_HOME).queries
    assert (query.action_code, query.name_hint, query.quantifier) == (code, "电视", None)


@pytest.mark.parametrize("sentence", ["取消电视的静音", "电视取消静音", "把电视的静音解除"])
def test_the_end_of_muting_is_to_unmute(sentence: str) -> None:
    assert _list_codes(sentence) == ["unmute"]


@pytest.mark.parametrize(
    ("sentence", "step"),
    [("床头灯别开那么亮", -10), ("床头灯别太亮", -10), ("床头灯不要这么暗", 10), ("床头灯别调那么亮", -10)],
)
def test_what_shall_not_be_so_bright_is_dimmed(sentence: str, step: int) -> None:
    [query] = parse_sentence(sentence, CHINESE_HOME).queries
    assert (query.action_code, query.arguments.brightness_step) == ("set_brightness", step)


@pytest.mark.parametrize("sentence", ["客厅的灯别开", "别开灯"])
def test_a_prohibition_without_a_degree_asks_for_nothing(sentence: str) -> None:
    assert _list_codes(sentence) == []


@pytest.mark.parametrize("sentence", ["床头灯开着吧", "床头灯开着就行", "帮我把床头灯开着"])
def test_a_request_that_a_device_stays_on_turns_it_on(sentence: str) -> None:
    assert _list_codes(sentence) == ["turn_on"]


@pytest.mark.parametrize("reason", ["会议开始了", "电影要开始了", "晚会结束了"])
def test_what_has_begun_is_a_reason_and_starts_nothing(reason: str) -> None:
    assert _list_codes(f"{reason}，把客厅的灯关掉") == ["turn_off"]


@pytest.mark.parametrize("sentence", ["燃气阀正常嘛？", "床头灯开着嘛?"])
def test_the_particle_of_taiwan_asks_before_a_question_mark(sentence: str) -> None:
    assert _list_codes(sentence) == ["query_state"]


def test_the_same_particle_does_not_ask_in_a_request() -> None:
    assert _list_codes("把床头灯关掉嘛") == ["turn_off"]


@pytest.mark.parametrize("sentence", ["刚才那台关掉", "同一扇关掉", "同样的设备再关一次", "之前那盏再关掉"])
def test_what_was_mentioned_may_be_counted_in_any_unit(sentence: str) -> None:
    [query] = parse_sentence(sentence, CHINESE_HOME).queries
    assert (query.action_code, query.references) == ("turn_off", ("last-mentioned",))


@pytest.mark.parametrize(
    ("sentence", "code"),
    [("床头灯先别关，调暗就行", "set_brightness"), ("那个先别关，调暗就行", "set_brightness")],
)
def test_what_shall_not_be_switched_off_but_changed_is_the_topic_of_the_change(sentence: str, code: str) -> None:
    [query] = parse_sentence(sentence, CHINESE_HOME).queries
    assert query.action_code == code
    assert query.name_hint == "床头灯" or query.references


@pytest.mark.parametrize(
    ("sentence", "code"),
    [("加湿器多喷点", "set_humidity"), ("老伙计多吹一点", "set_speed"), ("老伙计少吹点", "set_speed")],
)
def test_more_or_less_of_what_a_device_does_is_a_step(sentence: str, code: str) -> None:
    assert _list_codes(sentence) == [code]


@pytest.mark.parametrize("sentence", ["电视换个台", "电视换台", "给电视转一个台"])
def test_to_change_the_station_without_a_number_sets_the_channel(sentence: str) -> None:
    assert _list_codes(sentence) == ["set_channel"]


@pytest.mark.parametrize("sentence", ["大门是锁着的吧", "床头灯是开着的吧", "大门没锁吧"])
def test_what_is_supposed_is_asked(sentence: str) -> None:
    assert _list_codes(sentence) == ["query_state"]


@pytest.mark.parametrize("remark", ["停电了", "要洗澡了", "听我说", "该睡觉了", "孩子在写作业"])
def test_what_has_happened_to_something_unknown_is_a_remark_before_a_command(remark: str) -> None:
    [query] = parse_sentence(f"{remark}，关掉床头灯", CHINESE_HOME).queries
    assert (query.action_code, query.name_hint) == ("turn_off", "床头灯")


def test_an_unknown_device_that_is_switched_off_alone_is_a_name() -> None:
    [query] = parse_sentence("关掉老火箭了", CHINESE_HOME).queries
    assert (query.action_code, query.name_hint) == ("turn_off", "老火箭")
