"""Reads a command: what to do with which devices."""

from collections.abc import Sequence
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
_LOCKING: Final = frozenset({"lock", "unlock"})
_OPENING: Final = frozenset({"open", "close", "set_position", "stop"})


def read_command(
    items: Sequence[Item], words: Sequence[EnglishWord], names: EnglishNames | None, unread: list[Item]
) -> tuple[list[Draft], Predicate]:
    """Return the queries of a command, and what it says to do."""
    rest, exclusion = cut_exclusion(items)
    predicate = read_predicate(rest)
    targets, unknown = find_targets(rest)
    unread += unknown
    if not targets and predicate.is_empty:
        return [], predicate
    drafts = [_make_draft(target, predicate, exclusion) for target in targets or [EnglishTarget()]]
    for draft, target in zip(drafts, targets, strict=False):
        _find_scattered(draft, target, rest, words, names, predicate, exclusion)
    return drafts, predicate


def drop_sensor(item: Item) -> Item:
    """Take a sensor named `Light` as the type: a sensor cannot be turned on."""
    if item.role is EnglishRole.NAME and item.name is not None and item.name.is_type_word():
        families = {FAMILY_OF_TYPE.get(one, one) for one in item.name.types}
        if families == {"sensor"}:
            kind = TYPE_WORDS.get(item.name.singulars)
            return Item(EnglishRole.TYPE, item.start, item.end, item.text, meaning=kind or "", comma=item.comma)
    return item


def _make_draft(target: EnglishTarget, predicate: Predicate, exclusion: Exclusion) -> Draft:
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
        reference=target.reference,
        others=target.others,
        arguments=fill_arguments(code, predicate, target.count if target.quantifier is Quantifier.COUNT else None),
    )
    draft.type = None if target.name is not None and not _is_plain(target) else fit_type(kind, target, code, draft)
    if (
        draft.type in ("media_player", "tv show")
        and target.type_text.startswith("media")
        and is_playing(code, predicate)
    ):
        draft.type = None
    if target.everywhere and draft.quantifier is None:
        draft.quantifier = Quantifier.ALL
    if target.others and not draft.excluded and draft.quantifier is None:
        draft.quantifier = Quantifier.ALL
    draft.doubt += 0.3 * target.guessed + 0.5 * (code is None)
    draft.doubt += 0.2 * (not named and not draft.reference and draft.quantifier is None and not draft.excluded)
    return draft


def _is_plain(target: EnglishTarget) -> bool:
    return target.name is None


def fit_type(kind: str | None, target: EnglishTarget, code: str | None, draft: Draft) -> str | None:
    """Return the type that an action means by a noun: a door is a lock to lock, and a cover to open."""
    if kind in ("door", "window", "garage_door") and code in _OPENING:
        return "cover"
    if kind in ("door", "cover", "window") and code in _LOCKING:
        return "lock"
    if kind is None and code in ("open", "close") and "garage" in draft.rooms and target.name is None:
        draft.rooms.remove("garage")
        return "cover"
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
    fresh = _make_draft(named, predicate, exclusion)
    draft.name, draft.code, draft.rooms, draft.type = fresh.name, fresh.code, fresh.rooms, None
    draft.arguments, draft.doubt = fresh.arguments, fresh.doubt + 0.1
