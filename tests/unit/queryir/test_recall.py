"""Devices that a command means: scope, names, near names, types, references."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.command_resolution import RecallReason
from skillbus.contracts.retriever.query_ir import Quantifier, QueryIR, Reference
from skillbus.queryir.home import Home
from skillbus.queryir.recall import Recall, RecallGap, recall_devices


def _device(key: str, name: str, room: str | None, kind: str, *aliases: str, can: Sequence[str] = ()) -> Device:
    return Device(home="home", id=key, name=name, aliases=aliases, room=room, type=kind, capabilities=tuple(can))


_HOME = Home(
    "home",
    [
        _device("fan", "老伙计", "客厅", "fan", "老风扇"),
        _device("main", "客厅主灯", "客厅", "light"),
        _device("floor", "落地灯", "客厅", "light"),
        _device("bed", "床头灯", "卧室", "light", "小夜灯"),
        _device("cool", "卧室空调", "卧室", "climate"),
        _device("kitchen", "厨房灯", "厨房", "light"),
        _device("player", "小爱音箱", "客厅", "speaker"),
        _device("one", "插座1", "厨房", "outlet"),
        _device("two", "插座2", "厨房", "outlet"),
        _device("gas", "燃气报警器", "厨房", "sensor", can=["carbonMonoxideDetector"]),
        _device("lamp", "Bedside Lamp", "guest room", "light"),
        _device("attic", "阁楼", None, "light"),
    ],
)


def _recall(home: Home = _HOME, mentioned: Sequence[str] = (), **fields: Any) -> Recall:
    return recall_devices(QueryIR(confidence=1.0, **fields), home, mentioned)


def _ids(recall: Recall) -> list[str]:
    return [match.device.id for match in recall.matches]


@pytest.mark.spec("context-retrieval.md § 名称精确命中优先")
def test_a_device_is_found_by_its_exact_name() -> None:
    (match,) = _recall(name_hint="老伙计").matches
    assert (match.device.id, match.reasons) == ("fan", (RecallReason.NAME_HIT,))


def test_a_name_comes_before_the_same_alias_and_both_before_similar_names() -> None:
    lamps = [_device("alias", "甲", None, "light", "大台灯"), _device("similar", "大抬灯", None, "light")]
    home = Home("home", lamps)
    (match,) = _recall(home, name_hint="大台灯").matches
    assert (match.device.id, match.reasons) == ("alias", (RecallReason.ALIAS_HIT,))
    assert _ids(_recall(Home("home", [*lamps, _device("name", "大台灯", None, "light")]), name_hint="大台灯")) == [
        "name"
    ]


@pytest.mark.spec("context-retrieval.md § 房间 + 类型组合命中")
@pytest.mark.spec("context-retrieval.md § reasons name_hit/room_hit/type_hit")
def test_room_and_type_find_only_devices_that_have_both() -> None:
    (match,) = _recall(scope_include=("卧室",), type_hint="light").matches
    assert match.device.id == "bed"
    assert match.reasons == (RecallReason.ROOM_HIT, RecallReason.TYPE_HIT)


@pytest.mark.spec("context-retrieval.md § 排除指定房间")
def test_an_excluded_room_is_left_out() -> None:
    recall = _recall(scope_exclude=("客厅",), type_hint="light", quantifier=Quantifier.EXCEPT)
    assert _ids(recall) == ["bed", "kitchen", "lamp", "attic"]


@pytest.mark.spec("context-retrieval.md § 仅包含指定房间")
def test_only_devices_of_the_included_room_are_found() -> None:
    assert _ids(_recall(scope_include=("客厅",), type_hint="light")) == ["main", "floor"]
    assert _ids(_recall(scope_include=("客厅", "厨房"), type_hint="light")) == ["main", "floor", "kitchen"]


@pytest.mark.parametrize(
    ("excluded", "left"),
    [
        ("落地灯", ["fan", "main", "player"]),
        ("老风扇", ["main", "floor", "player"]),
        ("灯", ["fan", "player"]),
        ("Lights", ["fan", "player"]),
        ("loudspeaker", ["fan", "main", "floor"]),
        ("电视", ["fan", "main", "floor", "player"]),
    ],
)
def test_a_name_an_alias_or_a_type_is_left_out(excluded: str, left: list[str]) -> None:
    recall = _recall(scope_include=("客厅",), scope_exclude=(excluded,), quantifier=Quantifier.EXCEPT)
    assert _ids(recall) == left


def test_an_exclusion_that_the_home_does_not_have_is_a_gap_and_reaches_no_device() -> None:
    recall = _recall(type_hint="light", scope_exclude=("地下室",), quantifier=Quantifier.EXCEPT)
    assert (recall.matches, recall.gap, recall.unknown) == ((), RecallGap.UNKNOWN_EXCLUSION, ("地下室",))


def test_the_scope_comes_before_the_name() -> None:
    assert _ids(_recall(name_hint="床头灯", scope_include=("客厅",))) == []
    assert _ids(_recall(name_hint="床头灯", scope_include=("卧室",))) == ["bed"]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("老火鸡", ["fan"]),  # sounds the same
        ("客厅主等", ["main"]),  # another tone
        ("落地的灯", ["floor"]),
        ("厨灯房灯", ["kitchen"]),
        ("床灯", []),
        ("小夜燈", ["bed"]),
        ("bedside lam", ["lamp"]),
        ("badside lamp", ["lamp"]),
        ("badside lam", []),
        ("插座3", []),  # another number is another device
        ("插座一", ["one"]),
        ("阁娄", ["attic"]),
    ],
)
def test_names_are_found_by_sound_with_one_character_wrong_and_in_either_script(said: str, found: list[str]) -> None:
    recall = _recall(name_hint=said)
    assert _ids(recall) == found
    fuzzy = {match.reasons[0] for match in recall.matches} - {RecallReason.ALIAS_HIT}
    assert fuzzy <= {RecallReason.FUZZY_HIT}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("左边窗帘",), "右边窗帘"),
        (("socket a",), "socket b"),
        (("三号吊灯",), "四号吊灯"),
        (("台灯A座",), "台灯B座"),
        (("fan",), "van"),
    ],
)
def test_characters_that_tell_twins_apart_are_no_errors(names: Sequence[str], said: str) -> None:
    home = Home("home", [_device(name, name, None, "light") for name in names])
    assert _ids(_recall(home, name_hint=said)) == []


def test_rooms_are_found_by_sound_and_in_traditional_characters() -> None:
    for room in ("客廳", "克厅"):
        assert _ids(_recall(scope_include=(room,), type_hint="fan")) == ["fan"]
    assert _ids(_recall(scope_include=("车库",), type_hint="light")) == []


def test_a_room_without_name_and_type_means_all_its_devices() -> None:
    assert _ids(_recall(scope_include=("卧室",))) == ["bed", "cool"]


def test_types_for_the_same_things_are_one() -> None:
    home = Home(
        "home", [_device("a", "甲", None, "curtain"), _device("b", "乙", None, "tv"), _device("c", "丙", None, "cover")]
    )
    assert _ids(_recall(home, type_hint="cover")) == _ids(_recall(home, type_hint="blind")) == ["a", "c"]


def test_a_near_type_counts_only_where_the_home_has_none_of_the_type_and_is_a_guess() -> None:
    home = Home("home", [_device("set", "电视", None, "media_player"), _device("box", "音箱", None, "speaker")])
    for kind, found, guessed in (("tv", "set", True), ("media_player", "set", False), ("speaker", "box", False)):
        (match,) = _recall(home, type_hint=kind).matches
        assert (match.device.id, match.near_type) == (found, guessed)
        assert (match.confidence < 0.9) is guessed
    assert _ids(_recall(type_hint="media_player")) == ["player"]
    assert _ids(_recall(Home("home", [_device("gate", "车库门", None, "garage")]), type_hint="cover")) == []


def test_a_class_of_sensors_means_the_devices_that_measure_it() -> None:
    assert _ids(_recall(type_hint="carbon_monoxide")) == ["gas"]
    assert _ids(_recall(type_hint="moisture")) == []


def test_a_reference_means_what_was_mentioned_last_of_the_type_that_it_names() -> None:
    references = (Reference.LAST_MENTIONED,)
    assert _ids(_recall(references=references, mentioned=["bed", "cool", "gone"])) == ["bed", "cool"]
    (match,) = _recall(references=references, mentioned=["bed", "cool"], type_hint="light").matches
    assert match.device.id == "bed"
    assert match.reasons == (RecallReason.REFERENCE_HIT, RecallReason.TYPE_HIT)


@pytest.mark.parametrize("mentioned", [[], ["gone"], ["cool"]])
def test_a_reference_to_nothing_is_a_gap_and_no_guess(mentioned: list[str]) -> None:
    recall = _recall(references=(Reference.LAST_MENTIONED,), mentioned=mentioned, type_hint="light")
    assert (recall.matches, recall.gap) == ((), RecallGap.NOTHING_MENTIONED)


def test_a_command_without_any_target_is_a_gap() -> None:
    assert _recall(action="打开").gap is RecallGap.NO_TARGET
    assert len(_recall(action="打开", quantifier=Quantifier.ALL).matches) == len(_HOME.devices)


def test_a_device_is_recalled_once_and_in_the_order_of_the_home() -> None:
    recall = _recall(references=(Reference.LAST_MENTIONED,), name_hint="客厅主灯", mentioned=["main"])
    assert _ids(recall) == ["main"]
    assert _ids(_recall(scope_include=("厨房", "厨房"))) == ["kitchen", "one", "two", "gas"]


def test_a_room_may_be_called_like_a_device_and_a_device_like_a_verb() -> None:
    home = Home("home", [_device("a", "打开", "书房", "light"), _device("b", "书房", None, "light")])
    assert _ids(_recall(home, name_hint="打开")) == ["a"]
    assert _ids(_recall(home, name_hint="书房")) == ["b"]
    assert _ids(_recall(home, scope_include=("书房",))) == ["a"]


def test_recall_among_ten_thousand_devices_takes_hardly_longer_than_among_ten() -> None:
    def make(count: int) -> Home:
        return Home(
            "home",
            [_device(str(at), f"{at}号落地灯", f"房间{at // 10}", "light", f"lamp number {at}") for at in range(count)],
        )

    def measure(home: Home) -> float:
        queries = [
            QueryIR(confidence=1.0, name_hint="5号落地灯"),
            QueryIR(confidence=1.0, name_hint="6号落第灯"),
            QueryIR(confidence=1.0, name_hint="lamp numbr 7"),
            QueryIR(confidence=1.0, scope_include=("房间0",), type_hint="light"),
        ]
        for query in queries:
            assert recall_devices(query, home).matches, query
        began = time.process_time()
        for _ in range(50):
            for query in queries:
                recall_devices(query, home)
        return time.process_time() - began

    assert measure(make(10_000)) < 40 * measure(make(10))


@pytest.mark.parametrize(("said", "found"), [("主灯", "a"), ("主登", "a"), ("台灯", "b"), ("风扇", None)])
def test_a_room_before_a_name_may_be_a_part_of_the_name(said: str, found: str | None) -> None:
    home = Home("home", [_device("a", "卧室主灯", "卧室", "light"), _device("b", "卧室台灯", "卧室", "light")])
    assert _ids(_recall(home, name_hint=said, scope_include=("卧室",))) == ([] if found is None else [found])
