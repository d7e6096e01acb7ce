"""The room of the speaker limits what names it, and nothing else."""

import pytest

from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.queryir.parser import parse_sentence
from skillbus.queryir.sentence import SpeakerPlace, place_speaker

from .homes import CHINESE_HOME


def _read(sentence: str, room: str | None) -> QueryIR:
    parsed = parse_sentence(sentence, CHINESE_HOME)
    [query] = place_speaker(parsed.queries, parsed.place, room)
    return query


@pytest.mark.parametrize(
    "sentence",
    [
        "关掉我房间的灯",
        "把这个房间的灯关掉",
        "这里的灯关掉",
        "turn off the lights in here",
        "turn the lights in my room off",
        "lights off in this room",
    ],
)
def test_what_names_the_room_of_the_speaker_is_limited_to_a_room_that_the_caller_gives(sentence: str) -> None:
    query = _read(sentence, "卧室")
    assert (query.action_code, query.type_hint, query.scope_include) == ("turn_off", "light", ("卧室",))
    assert query.confidence == 1.0


@pytest.mark.parametrize(
    "sentence", ["关灯", "关掉厨房的灯", "关掉床头灯", "turn off the lights", "turn that off in here"]
)
def test_other_sentences_are_not_limited_by_the_room_of_the_speaker(sentence: str) -> None:
    assert _read(sentence, "卧室") == _read(sentence, None)


@pytest.mark.parametrize(
    ("sentence", "place", "sure"),
    [
        ("关掉我房间的灯", SpeakerPlace.OWN_ROOM, False),
        ("turn off the lights in my room", SpeakerPlace.OWN_ROOM, False),
        ("关掉这个房间的灯", SpeakerPlace.HERE, True),
        ("turn off the lights in here", SpeakerPlace.HERE, True),
    ],
)
def test_without_the_room_of_the_speaker_my_room_is_no_sure_reading(
    sentence: str, place: SpeakerPlace, *, sure: bool
) -> None:
    assert parse_sentence(sentence, CHINESE_HOME).place is place
    assert (_read(sentence, None).confidence > 0.6) is sure
