"""Reads a question: what is asked, and of which devices."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from skillbus.queryir.english.drafts import Draft
from skillbus.queryir.english.exclusions import cut_exclusion
from skillbus.queryir.english.lexicon.phrases import read_words
from skillbus.queryir.english.lexicon.states import OPENINGS, PEOPLE
from skillbus.queryir.english.lexicon.types import CLASSES, FAMILY_OF_TYPE, FORMULAS, TYPE_WORDS
from skillbus.queryir.english.targets import EnglishTarget, find_targets
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.names import EnglishNames
from skillbus.queryir.english.words.tokens import EnglishWord

_WARMTH: Final = read_words(
    """
    hot cold warm cool chilly freezing temperature temp degrees
    """
)
_NOUNS: Final = frozenset(
    {EnglishRole.NAME, EnglishRole.ROOM, EnglishRole.TYPE, EnglishRole.REFERENCE, EnglishRole.WORD}
)
_MEASURES: Final = {"temperature": "query_temperature", "humidity": "query_humidity"}


def read_question(
    items: Sequence[Item], words: Sequence[EnglishWord], names: EnglishNames | None, unread: list[Item]
) -> list[Draft]:
    """Return the queries of a question."""
    rest, exclusion = cut_exclusion(items)
    people = any(item.text in PEOPLE or item.text == "who" for item in rest)
    rest = [_take_switched(item, rest) for item in rest]
    rest = [item for item in rest if item.text not in PEOPLE or item.role is EnglishRole.NAME]
    targets, unknown = find_targets(_hide_measures(rest), question=True)
    states = [item for item in rest if item.role is EnglishRole.STATE]
    measured = _find_measure(rest, states)
    drafts: list[Draft] = []
    for target in targets or [EnglishTarget()]:
        draft = Draft(code="query_state", name=target.name, rooms=target.rooms, excluded=list(exclusion.things))
        draft.type = None if target.name is not None and not target.guessed else _find_type(target, states, measured)
        draft.reference = target.reference and not (measured or _is_expletive(rest))
        if draft.reference and target.type is None:
            draft.type = None
        if people and draft.name is None and draft.type in (None, "presence"):
            draft.type = _choose_presence(states, names)
        _find_scattered(draft, target, rest, words, names)
        if target.guessed and draft.name is not None and (draft.type is not None or measured):
            _doubt_name(draft, states)
        if measured in _MEASURES and not _is_sensor(draft, names):
            draft.code = _MEASURES[measured]
            draft.type = None if draft.type in (*_MEASURES, "heat", "cold") else draft.type
        if target.guessed and draft.name:
            draft.type = None
            draft.doubt += 0.5
        draft.doubt += 0.0 if draft.name or draft.type or draft.rooms or draft.reference else 0.3
        drafts.append(draft)
    unread += unknown
    return drafts


def _choose_presence(states: Sequence[Item], names: EnglishNames | None) -> str:
    """Return the type that knows people: of a home the persons, if it has them as devices, and of a room a sensor."""
    if not any(state.meaning == "presence" for state in states):
        return "occupancy"
    return "person" if names is not None and "person" in names.types else "presence"


def _is_sensor(draft: Draft, names: EnglishNames | None) -> bool:
    """Return True for the name of a sensor, which has one state, whatever it measures."""
    types = names.list_types(draft.name) if names is not None and draft.name is not None else frozenset()
    return bool(types) and {FAMILY_OF_TYPE.get(one, one) for one in types} == {"sensor"}


def _take_switched(item: Item, items: Sequence[Item]) -> Item:
    """Take a sensor named `Light` as the type where the question is what is on or off."""
    if item.role is not EnglishRole.NAME or item.name is None or not item.name.is_type_word():
        return item
    kind = TYPE_WORDS.get(item.name.singulars) or ""
    sensors = {FAMILY_OF_TYPE.get(one, one) for one in item.name.types} == {"sensor"}
    switched = any(state.role is EnglishRole.STATE and state.text in ("on", "off") for state in items)
    if sensors and switched and kind in ("light", "fan", "switch", "outlet"):
        return replace(item, role=EnglishRole.TYPE, meaning=kind, name=None)
    return item


def _hide_measures(items: Sequence[Item]) -> list[Item]:
    """Return the items without what is measured, where a device or room is named beside it.

    `the battery level of my phone` asks for the phone, also if a sensor is called `Battery`.
    """
    own = [item for item in items if item.role in (EnglishRole.NAME, EnglishRole.REFERENCE) and not _is_measure(item)]
    named = [item for item in items if item.role in (EnglishRole.NAME, EnglishRole.REFERENCE)]
    if len(named) > len(own) > 0:
        items = [item for item in items if not _is_measure(item)]
    return [item for item in items if not (item.role is EnglishRole.TYPE and named and item.meaning in CLASSES)]


def _is_measure(item: Item) -> bool:
    """Return True for a name that is a mere word for what is measured: a sensor called `Gas`."""
    return item.name is not None and item.role is EnglishRole.NAME and TYPE_WORDS.get(item.name.singulars) in CLASSES


def _find_measure(items: Sequence[Item], states: Sequence[Item]) -> str:
    """Return `temperature` or `humidity` if the question is for one of them."""
    for item in items:
        if item.role is EnglishRole.TYPE and item.meaning in _MEASURES:
            return item.meaning
    texts = {word for item in items for word in item.text.split()}
    warm = bool(texts & _WARMTH)
    subject = any(item.role in (EnglishRole.NAME, EnglishRole.TYPE) for item in items)
    which = bool(texts & {"which", "any", "many"})
    if (
        warm
        and not subject
        and not which
        and not any(item.role is EnglishRole.WORD for item in items if item.text not in _WARMTH)
    ):
        return "temperature"
    if warm and "how" in texts and not which:
        return "temperature"
    return "humidity" if "humid" in texts else ""


def _is_expletive(items: Sequence[Item]) -> bool:
    """Return True if `it` stands for nothing: `is it raining`."""
    weather = ("raining", "snowing", "windy", "sunny", "cold", "hot", "warm", "dark", "bright", "late")
    return any(item.text in weather for item in items) and not any(item.text in ("on", "off") for item in items)


def _find_type(target: EnglishTarget, states: Sequence[Item], measured: str) -> str | None:
    """Return the type that is asked for: the noun's, or else that of the adjective (`wet`: moisture)."""
    classes = [state.meaning for state in states if state.meaning]
    kind = target.type
    if kind in ("door", "garage_door") and "lock" in classes:
        return "lock"
    if kind in (None, "sensor", "moisture", "battery") and classes:
        return classes[0] if kind is None or classes[0] != "battery" else "battery"
    if kind is None and any(state.text in OPENINGS for state in states):
        return "opening"
    return kind


def _find_scattered(
    draft: Draft, target: EnglishTarget, items: Sequence[Item], words: Sequence[EnglishWord], names: EnglishNames | None
) -> None:
    """Look for a device whose words stand apart: `the CO2 level of the heat pump`."""
    if names is None or (draft.name is not None and not target.guessed):
        return
    used = [word for item in items if item.role is not EnglishRole.QUESTION for word in words[item.start : item.end]]
    more = [word for item in items if item.role is EnglishRole.TYPE for word in FORMULAS.get(item.meaning, ())]
    if (found := names.find_scattered(used, more)) is None:
        return
    said = {used[place].singular for place in found[1]}
    draft.name, draft.type, target.guessed = found[0].spelling, None, False
    draft.rooms = [room for room in draft.rooms if not set(room.casefold().split()) <= said]
    draft.doubt += 0.1


def _doubt_name(draft: Draft, states: Sequence[Item]) -> None:
    """Drop an unknown word as a name if the type says enough: `is the carpet wet`."""
    if FAMILY_OF_TYPE.get(draft.type or "") == "sensor" or states:
        draft.name = None
        draft.doubt += 0.1
