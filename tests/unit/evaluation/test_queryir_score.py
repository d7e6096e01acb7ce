"""Which fields of a parsed sentence are right."""

from typing import Any

import pytest

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.evaluation.queryir.rows import SentenceRow
from skillbus.evaluation.queryir.score import compare_queries

HOME = [
    Device(home="h", id="1", name="阳台灯", room="阳台", type="light"),
    Device(home="h", id="2", name="大门锁", aliases=("门锁",), room="玄关", type="lock"),
    Device(home="h", id="3", name="Light", room="Kitchen", type="light"),
]
BEDROOM = {"action": "打开", "action_code": "turn_on", "type_hint": "light", "scope_include": ("卧室",)}


def row(expected: dict[str, Any], **accept: object) -> SentenceRow:
    return SentenceRow.model_validate(
        {"id": "1", "utterance": "x", "lang": "zh", "inventory": "h", "ir": expected, "accept": accept or None}
    )


def query(**fields: Any) -> QueryIR:
    return QueryIR(**fields, confidence=1.0)


def wrong(expected: dict[str, Any], found: dict[str, Any], **accept: object) -> list[str]:
    return [it.field for it in compare_queries(row(expected, **accept), [query(**found)], HOME)]


def test_the_expected_fields_are_right() -> None:
    assert wrong(BEDROOM, BEDROOM) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", "关闭"),
        ("action_code", "open"),
        ("name_hint", "阳台灯"),
        ("type_hint", "switch"),
        ("type_hint", None),
        ("scope_include", ("客厅",)),
        ("scope_include", ("卧室", "客厅")),
        ("scope_exclude", ("客厅",)),
        ("quantifier", "all"),
        ("references", ("last-mentioned",)),
    ],
)
def test_another_value_is_wrong_in_its_field_alone(field: str, value: object) -> None:
    assert wrong(BEDROOM, BEDROOM | {field: value}) == [field]


def test_a_missing_value_is_wrong() -> None:
    expected = {"action": "打开", "name_hint": "阳台灯", "quantifier": "all", "references": ["last-mentioned"]}
    assert wrong(expected, {"action": "打开"}) == ["quantifier", "name_hint", "references"]


def test_case_white_space_and_script_do_not_matter() -> None:
    expected = {"action": "Turn off", "name_hint": "臥室  Lamp", "scope_include": ["Living Room", "客厅"]}
    found = {"action": "turn off", "name_hint": "卧室lamp", "scope_include": ("客廳", "living  room")}
    assert wrong(expected, found) == []


def test_accepted_values_are_right_besides_the_expected_ones() -> None:
    accept = {"action": ["开"], "action_code": ["open"], "name": [None, "门锁"], "type": [None, "cover"]}
    other = {"action": "开", "action_code": "open", "name_hint": "门锁", "type_hint": "cover"}
    expected = {"action": "打开", "action_code": "turn_on", "name_hint": "大门锁", "type_hint": "lock"}
    assert wrong(expected, other, **accept, quantifier=[None, "all"]) == []
    assert wrong(expected, {"action": "打开", "action_code": "turn_on"}, **accept) == []
    assert wrong(expected, other) == ["action", "action_code", "name_hint", "type_hint"]


def test_the_quantifier_any_of_the_data_is_one() -> None:
    expected = BEDROOM | {"quantifier": "any"}
    assert wrong(expected, BEDROOM | {"quantifier": "one"}) == []
    assert wrong(expected, BEDROOM) == ["quantifier"]
    assert wrong(BEDROOM, BEDROOM | {"quantifier": "one"}, quantifier=["any"]) == []


@pytest.mark.parametrize(
    ("expected", "names"),
    [({"name_hint": "阳台灯"}, []), ({"scope_include": ["阳台"], "type_hint": "light"}, [None, "阳台灯"])],
)
@pytest.mark.parametrize(
    "found",
    [
        {"name_hint": "阳台灯"},
        {"name_hint": "阳台灯", "scope_include": ("阳台",), "type_hint": "light"},
        {"scope_include": ("阳台",), "type_hint": "light"},
    ],
)
def test_a_name_is_as_right_as_its_room_with_its_type(
    expected: dict[str, Any], names: list[object], found: dict[str, Any]
) -> None:
    assert wrong({"action": "开"} | expected, {"action": "开"} | found, name_or_scope=True, name=names) == []


@pytest.mark.parametrize(
    "found",
    [
        {"type_hint": "light"},
        {"scope_include": ("阳台",)},
        {"scope_include": ("玄关",), "type_hint": "light"},
        {"scope_include": ("阳台",), "type_hint": "lock"},
        {"name_hint": "大门锁"},
        {"name_hint": "阳台灯", "scope_include": ("玄关",)},
        {"name_hint": "阳台灯", "type_hint": "lock"},
    ],
)
def test_another_room_type_or_name_is_wrong_also_where_name_and_scope_are_alike(found: dict[str, Any]) -> None:
    assert wrong({"action": "开", "name_hint": "阳台灯"}, {"action": "开"} | found, name_or_scope=True)


def test_an_excluded_type_may_be_given_by_its_word_or_its_name() -> None:
    expected = {"action": "关闭", "scope_exclude": ["空调"], "quantifier": "except"}
    found = {"action": "关闭", "quantifier": "except"}
    for excluded, fields in ((["空调"], []), (["climate"], []), (["fan"], ["scope_exclude"]), ([], ["scope_exclude"])):
        assert wrong(expected, found | {"scope_exclude": excluded}, scope_exclude_kind="type:climate") == fields


def test_a_sentence_with_no_command_or_with_two_is_wrong() -> None:
    for found in ([], [query(**BEDROOM), query(**BEDROOM)]):
        assert [it.field for it in compare_queries(row(BEDROOM), found, HOME)] == ["queries"]
