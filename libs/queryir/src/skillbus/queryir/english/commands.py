"""Reads a command: what to do with which devices."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from skillbus.contracts.retriever.query_ir import Quantifier
from skillbus.queryir.english.actions import Predicate, choose_action, is_playing, read_predicate
from skillbus.queryir.english.arguments import fill_arguments
from skillbus.queryir.english.drafts import Draft
from skillbus.queryir.english.exclusions import Exclusion, cut_exclusion
from skillbus.queryir.english.lexicon.types import FAMILY_OF_TYPE, TYPE_WORDS
from skillbus.queryir.english.targets import EnglishTarget, find_targets
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.names import EnglishNames
from skillbus.queryir.english.words.tokens import EnglishWord

_CONTROLS: Final = {"moisture": "valve", "gas": "valve", "heat": "climate", "sound": "speaker", "smoke": "alarm"}
"""Devices that a command means by a word which names a sensor in a question: `turn off the water`."""
_CLIMATE: Final = frozenset({"warmer", "hotter", "cooler", "colder", "brighter", "darker", "lighter"})
"""Comparatives of a room: `it` of `make it warmer in here` stands for nothing."""
_HERE: Final = frozenset({"here", "in here", "in this room", "this room", "in there", "in the room"})
_LOCKING: Final = frozenset({"lock", "unlock"})
_OPENING: Final = frozenset({"open", "close", "set_position", "stop"})


def read_command(
    items: Sequence[Item], words: Sequence[EnglishWord], names: EnglishNames | None, unread: list[Item]
) -> tuple[list[Draft], Predicate]:
    """Return the queries of a command, and what it says to do."""
    rest, exclusion = cut_exclusion(items)
    predicate = read_predicate(rest)
    if predicate.step in _CLIMATE and any(item.role is EnglishRole.ROOM or item.text in _HERE for item in rest):
        rest = [item for item in rest if item.text != "it"]
    targets, unknown = find_targets(rest)
    unread += unknown
    if not targets and predicate.is_empty:
        return [], predicate
    types = names.types if names is not None else frozenset()
    drafts = [_make_draft(target, predicate, exclusion, types) for target in targets or [EnglishTarget()]]
    for draft, target in zip(drafts, targets, strict=False):
        _find_scattered(draft, target, rest, words, names, predicate, exclusion)
    return drafts, predicate


def take_type_words(items: Sequence[Item], names: EnglishNames | None) -> list[Item]:
    """Take names that are mere words for a type as that type, where a command cannot mean the name.

    A sensor named `Light` cannot be turned on; `the blinds in the bedroom` and `all blinds` are blinds, whatever else
    is called so, and `kitchen and garage lights` are the lights of two rooms.
    """
    items = [part for index, item in enumerate(items) for part in _part_name(items, index, item, names)]
    placed = any(item.role is EnglishRole.ROOM or item.quantifier is Quantifier.ALL for item in items)
    return [_take_type_word(item, placed=placed) for item in items]


def _part_name(items: Sequence[Item], index: int, item: Item, names: EnglishNames | None) -> list[Item]:
    """Return room and type of a name behind another room: `garage lights` of `kitchen and garage lights`."""
    joined = index > 1 and items[index - 1].role is EnglishRole.AND and items[index - 2].role is EnglishRole.ROOM
    if not joined or names is None or item.name is None or not item.plural or item.role is not EnglishRole.NAME:
        return [item]
    words = item.name.words
    for cut in range(1, len(words)):
        room, kind = names.find_room(words[:cut]), TYPE_WORDS.get(item.name.singulars[cut:])
        if room is not None and kind is not None:
            place = replace(item, role=EnglishRole.ROOM, meaning=room, name=None, end=item.start + cut)
            return [place, replace(item, role=EnglishRole.TYPE, meaning=kind, name=None, start=item.start + cut)]
    return [item]


def _take_type_word(item: Item, *, placed: bool) -> Item:
    if item.role is not EnglishRole.NAME or item.name is None or not item.name.is_type_word():
        return item
    sensors = {FAMILY_OF_TYPE.get(one, one) for one in item.name.types} == {"sensor"}
    if not sensors and not (placed and item.plural):
        return item
    kind = TYPE_WORDS.get(item.name.singulars) or ""
    return replace(item, role=EnglishRole.TYPE, meaning=kind, name=None)


def _make_draft(target: EnglishTarget, predicate: Predicate, exclusion: Exclusion, types: AbstractSet[str]) -> Draft:
    kind = _CONTROLS.get(target.type or "", target.type)
    if kind is None and exclusion.type is not None and target.name is None:
        kind, target.type_text = exclusion.type, exclusion.type_text
    target.type = kind
    named = target.name is not None or kind is not None or bool(target.rooms)
    code = choose_action(predicate, target.family, named=named)
    draft = Draft(
        code=code,
        verb=predicate.text,
        name=target.name,
        rooms=list(target.rooms),
        excluded=list(exclusion.things),
        quantifier=target.quantifier,
        reference=target.reference or exclusion.reference,
        spared=exclusion.reference,
        others=target.others,
        arguments=fill_arguments(code, predicate, target.count if target.quantifier is Quantifier.COUNT else None),
    )
    draft.type = None if target.name is not None else fit_type(kind, target, code, draft, types)
    if draft.type == "media_player" and target.type_text.startswith("media") and is_playing(code, predicate):
        draft.type = None
    if target.everywhere and draft.quantifier is None:
        draft.quantifier = Quantifier.ALL
    if target.others and not draft.excluded and draft.quantifier is None:
        draft.quantifier = Quantifier.ALL
    draft.doubt += 0.3 * target.guessed + 0.5 * (code is None) + 0.4 * predicate.numbers_device
    draft.doubt += 0.2 * (not named and not draft.reference and draft.quantifier is None and not draft.excluded)
    return draft


def fit_type(
    kind: str | None, target: EnglishTarget, code: str | None, draft: Draft, types: AbstractSet[str]
) -> str | None:
    """Return the type that an action means by a noun: a door is a lock to lock, and a cover to open.

    `types` are those of the home: if it has windows, a window is no other cover.
    """
    if kind in ("door", "cover", "window", "garage_door") and code in _LOCKING:
        return "lock"
    if kind in ("door", "window") and code in _OPENING:
        return kind if kind in types else "cover"
    if kind == "garage_door":
        return kind if kind in types else "garage"
    if kind is None and code in ("open", "close") and "garage" in draft.rooms and target.name is None:
        draft.rooms.remove("garage")
        return "garage_door" if "garage_door" in types else "garage"
    if kind is None and code in _LOCKING and target.name is None and not target.reference:
        return "lock"
    return kind


def _find_scattered(
    draft: Draft,
    target: EnglishTarget,
    items: Sequence[Item],
    words: Sequence[EnglishWord],
    names: EnglishNames | None,
    predicate: Predicate,
    exclusion: Exclusion,
) -> None:
    """Look for a device whose words stand apart, where the sentence has words that nobody knows."""
    if names is None or not target.guessed:
        return
    roles = (EnglishRole.WORD, EnglishRole.ROOM, EnglishRole.TYPE, EnglishRole.NAME)
    used = [word for item in items if item.role in roles for word in words[item.start : item.end]]
    if (found := names.find_scattered(used)) is None:
        return
    said = {used[place].singular for place in found[1]}
    rooms = [room for room in target.rooms if not set(room.casefold().split()) <= said]
    named = EnglishTarget(name=found[0].spelling, types=set(found[0].types), rooms=rooms, quantifier=target.quantifier)
    fresh = _make_draft(named, predicate, exclusion, names.types)
    draft.name, draft.code, draft.rooms, draft.type = fresh.name, fresh.code, fresh.rooms, None
    draft.arguments, draft.doubt = fresh.arguments, fresh.doubt + 0.1
