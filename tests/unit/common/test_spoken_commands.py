"""What a model is told of a spoken command, and the home that is meant without a name."""

import pytest

from skillbus.common.tools.spoken_commands import DEVICES_MAX, HomeUnclearError, choose_home, summarize_resolution
from skillbus.contracts.indexer.devices import HomesListed, HomeSummary
from skillbus.contracts.retriever.command_resolution import (
    CommandResolved,
    DroppedDevice,
    DropReason,
    RecalledDevice,
    ResolutionStatus,
    ResolvedCommandCall,
    ResolvedDevice,
    ResolvedQuery,
)
from skillbus.contracts.retriever.query_ir import QueryArguments, QueryIR

QUERY = QueryIR(action="打开", confidence=1)
DIM = QueryIR(action="打开", arguments=QueryArguments(brightness=50), confidence=1)
ON = ResolvedCommandCall(
    id="switch.on",
    capability="switch",
    command="on",
    description={"zh": "打开设备"},
    score=0.9,
    arguments={"level": 50},
)


def homes(*names: str) -> HomesListed:
    return HomesListed(homes=tuple(HomeSummary(home=name, devices=1, rooms=0) for name in names), total=len(names))


def lamp(number: int) -> ResolvedDevice:
    return ResolvedDevice(id=f"d{number}", name="灯", room="书房", type="light", reasons=(), confidence=1, command=ON)


def resolved(*results: ResolvedQuery) -> CommandResolved:
    return CommandResolved(results=results, parsed_by="rules", took_ms=1)


def test_the_only_home_needs_no_name() -> None:
    assert choose_home(homes("villa"), None) == "villa"
    assert choose_home(homes("villa", "attic"), "attic") == "attic"


@pytest.mark.parametrize(
    ("names", "named", "said"),
    [
        ((), None, "no home yet"),
        (("villa", "attic"), None, "name the home: the project has villa, attic"),
        (("villa",), "vila", "there is no home 'vila': the project has villa"),
        (tuple(f"h{number}" for number in range(23)), "x", "h19 and 3 more"),
    ],
)
def test_an_unclear_home_is_refused_with_the_names_of_all(names: tuple[str, ...], named: str | None, said: str) -> None:
    with pytest.raises(HomeUnclearError, match=said):
        choose_home(homes(*names), named)


def test_a_model_is_told_device_command_and_arguments_and_nothing_empty() -> None:
    result = ResolvedQuery(query=DIM, status=ResolutionStatus.RESOLVED, devices=(lamp(1),), confidence=0.98765)
    assert summarize_resolution(resolved(result)) == {
        "results": [
            {
                "status": "resolved",
                "action": "打开",
                "values": {"brightness": 50},
                "devices": [
                    {"id": "d1", "name": "灯", "room": "书房", "command": "switch.on", "arguments": {"level": 50}}
                ],
                "confidence": 0.988,
            }
        ]
    }


def test_a_model_is_told_what_to_ask_and_why_devices_were_dropped() -> None:
    fan = RecalledDevice(id="f", name="风扇", room=None, type="fan", reasons=(), confidence=0.5)
    dropped = DroppedDevice(id="s", name="窗帘", reason=DropReason.NO_COMMAND_FITS, detail="best: 关闭 (0.2)")
    result = ResolvedQuery(
        query=QUERY,
        status=ResolutionStatus.AMBIGUOUS,
        candidates=(fan,),
        dropped=(dropped,),
        question="哪一个?",
        confidence=0,
    )
    assert summarize_resolution(resolved(result)) == {
        "results": [
            {
                "status": "ambiguous",
                "action": "打开",
                "question": "哪一个?",
                "candidates": [{"id": "f", "name": "风扇", "room": None}],
                "dropped": [{"id": "s", "name": "窗帘", "why": "best: 关闭 (0.2)"}],
                "confidence": 0,
            }
        ]
    }


def test_a_model_is_told_how_many_devices_were_left_out_and_that_a_sentence_is_no_command() -> None:
    many = tuple(map(lamp, range(DEVICES_MAX + 7)))
    result = ResolvedQuery(query=QUERY, status=ResolutionStatus.RESOLVED, devices=many, more_devices=3, confidence=1)
    told = summarize_resolution(resolved(result))["results"]
    assert isinstance(told, list)
    assert isinstance(told[0], dict)
    assert told[0]["devices_left_out"] == 10
    assert summarize_resolution(resolved()) == {"results": [], "note": "The sentence is no command for devices."}
