"""Finds what a clause is about: names, types, rooms and how many of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from skillbus.contracts.retriever.query_ir import Quantifier
from skillbus.queryir.english.lexicon.grammar_words import GENERIC_NOUNS
from skillbus.queryir.english.lexicon.types import FAMILY_OF_TYPE
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.names import find_family
from skillbus.queryir.english.words.values import ValueKind

_BREAKS: Final = frozenset(
    {
        EnglishRole.AND,
        EnglishRole.THEN,
        EnglishRole.VERB,
        EnglishRole.VALUE,
        EnglishRole.PARTICLE,
        EnglishRole.QUESTION,
        EnglishRole.STATE,
    }
)
_BARE: Final = frozenset({EnglishRole.TYPE, EnglishRole.ROOM})


@dataclass(slots=True)
class EnglishTarget:
    """Devices that a clause is about."""

    name: str | None = None
    types: set[str] = field(default_factory=set)
    """Types of the devices of that name."""
    type: str | None = None
    type_text: str = ""
    rooms: list[str] = field(default_factory=list)
    quantifier: Quantifier | None = None
    count: int | None = None
    reference: bool = False
    all_of: bool = False
    """True for `all of them`."""
    others: bool = False
    everywhere: bool = False
    guessed: bool = False
    """True if the name or a room is a word that nobody knows."""
    led: bool = False
    """True if a room stands before the type: `kitchen lights`."""

    @property
    def family(self) -> str | None:
        """Family of types of the target."""
        if self.types:
            return find_family(self.types)
        return FAMILY_OF_TYPE.get(self.type or "", self.type)

    @property
    def is_empty(self) -> bool:
        """Return True if it names no device and no type."""
        return self.name is None and self.type is None


def find_targets(items: Sequence[Item], *, question: bool = False) -> tuple[list[EnglishTarget], list[Item]]:
    """Return the targets of a clause in its order, and the words that nobody understood."""
    unread: list[Item] = []
    found: list[EnglishTarget] = []
    for segment in _split_segments(items):
        targets = _read_segment(segment, unread, question=question) or []
        if targets and found and targets[0].quantifier is None and segment[0].role in _BARE:
            targets[0].quantifier = found[-1].quantifier if found[-1].quantifier is Quantifier.ALL else None
        found += targets
    return _join_segments(found), unread


def _split_segments(items: Sequence[Item]) -> list[list[Item]]:
    segments: list[list[Item]] = [[]]
    for item in items:
        if item.role in (EnglishRole.AND, EnglishRole.THEN) or item.comma:
            segments.append([])
        if item.role not in (EnglishRole.AND, EnglishRole.THEN):
            segments[-1].append(item)
    return [segment for segment in segments if segment]


def _read_segment(segment: Sequence[Item], unread: list[Item], *, question: bool) -> list[EnglishTarget] | None:
    """Read the target of one noun phrase. Two names without `and` are two targets."""
    target = EnglishTarget()
    more: list[EnglishTarget] = []
    words: list[Item] = []
    for index, item in enumerate(segment):
        if item.role is EnglishRole.WORD:
            words.append(item)
            continue
        words = _place_words(words, item, segment[:index], target, unread, question=question)
        if item.role is EnglishRole.NAME and item.name is not None:
            if target.name is None or target.guessed:
                target.name, target.types = item.meaning, set(item.name.types)
                target.guessed = False
                if target.type is not None and _fits(target.types, target.type):
                    target.type = None
            elif target.name != item.meaning:
                more.append(EnglishTarget(name=item.meaning, types=set(item.name.types)))
        else:
            _take_item(target, item, index, segment)
    _place_words(words, None, segment, target, unread, question=question)
    empty = EnglishTarget()
    return [target, *more] if target != empty else None


def _take_item(target: EnglishTarget, item: Item, index: int, segment: Sequence[Item]) -> None:
    match item.role:
        case EnglishRole.TYPE:
            _take_type(target, item)
        case EnglishRole.ROOM:
            target.rooms.append(item.meaning)
            target.led = target.led or target.type is None
        case EnglishRole.QUANTIFIER:
            _take_quantifier(target, item, segment[index + 1 :])
        case EnglishRole.REFERENCE:
            whole = item.text.split()[0] in ("all", "both", "each", "every")
            target.reference, target.all_of = True, target.all_of or whole
            target.quantifier = target.quantifier or (Quantifier.ALL if whole else None)
        case EnglishRole.OTHERS:
            target.others = True
        case EnglishRole.EVERYWHERE:
            target.everywhere = True
        case EnglishRole.VALUE if item.value is not None and item.value.kind is ValueKind.NUMBER:
            following = [
                one
                for one in segment[index + 1 :]
                if one.role not in (EnglishRole.FUNCTION, EnglishRole.ROOM, EnglishRole.WORD)
            ]
            number = item.value.number
            if following and following[0].role is EnglishRole.TYPE and number == int(number) and 0 < number <= 10_000:
                one = number == 1
                target.quantifier = Quantifier.ONE if one else Quantifier.COUNT
                target.count = None if one else int(number)


def _take_quantifier(target: EnglishTarget, item: Item, following: Sequence[Item]) -> None:
    target.quantifier = target.quantifier or item.quantifier
    if item.quantifier is Quantifier.COUNT:
        target.count = 2
    nouns = any(
        one.role in (EnglishRole.TYPE, EnglishRole.NAME, EnglishRole.ROOM, EnglishRole.WORD) for one in following
    )
    if item.text == "both" and not nouns:
        target.reference = True


def _take_type(target: EnglishTarget, item: Item) -> None:
    if target.name is not None and (target.guessed or _fits(target.types, item.meaning)):
        return
    if target.type is None or target.type in ("sensor", "moisture", "motion"):
        target.type, target.type_text = item.meaning, item.text


def _fits(types: Iterable[str], kind: str) -> bool:
    """Return True if a word for a type can stand for devices of some types: `lamp` for a light, `door` for a lock."""
    family = FAMILY_OF_TYPE.get(kind, kind)
    families = {FAMILY_OF_TYPE.get(one, one) for one in types}
    return kind in types or family in families or bool(families & {"lock", "sensor", "scene"}) or family == "sensor"


def _place_words(
    words: list[Item],
    following: Item | None,
    before: Sequence[Item],
    target: EnglishTarget,
    unread: list[Item],
    *,
    question: bool,
) -> list[Item]:
    """Take unknown words: before a type or alone they are a name, behind `in the` a room."""
    if not words:
        return []
    if (
        following is not None
        and following.role in (EnglishRole.FUNCTION, EnglishRole.FILLER)
        and following.text in ("one", "ones")
    ):
        following = None
    text = " ".join(word.text for word in words)[:200]
    locative = _ends_with_locative(before[: -len(words)] if following is None else before[: len(before) - len(words)])
    known = words[-1].text in GENERIC_NOUNS
    if known:
        pass
    elif following is not None and following.role is EnglishRole.TYPE and target.name is None:
        scene = following.meaning in ("scene", "script", "automation")
        target.name, target.guessed = text if scene else f"{text} {following.text}", True
        target.type, target.type_text = following.meaning, following.text
    elif locative and not target.rooms:
        target.rooms.append(text)
        target.guessed = True
    elif target.name is None and target.type is None and not target.reference and not (question and target.rooms):
        target.name, target.guessed = text, True
        target.types = {"scene"} if words[-1].text.endswith(" mode") else set()
    else:
        unread += words
    return []


def _ends_with_locative(before: Sequence[Item]) -> bool:
    rest = list(before)
    while rest and rest[-1].text in ("the", "my", "our", "their", "his", "her"):
        rest.pop()
    return bool(rest) and rest[-1].text in ("in", "inside", "at", "within")


def _join_segments(segments: list[EnglishTarget]) -> list[EnglishTarget]:
    """Join rooms and types that stand apart: `kitchen and bedroom lights`, `lights in the kitchen and the study`."""
    joined: list[EnglishTarget] = []
    waiting: list[EnglishTarget] = []
    for segment in segments:
        if segment.all_of and joined and segment.is_empty and not joined[-1].is_empty:
            joined[-1].quantifier = joined[-1].quantifier or Quantifier.ALL
            continue
        if segment.reference and segment.is_empty and joined and not joined[-1].is_empty and not segment.rooms:
            continue
        plain = segment.is_empty and not segment.reference and not segment.others
        if plain and segment.rooms and joined and not waiting and not joined[-1].guessed:
            joined[-1].rooms += segment.rooms
            joined[-1].everywhere |= segment.everywhere
        elif plain:
            waiting.append(segment)
        else:
            for one in waiting:
                segment.rooms = one.rooms + segment.rooms
                segment.quantifier = segment.quantifier or one.quantifier
                segment.everywhere |= one.everywhere
            waiting = []
            joined.append(segment)
    for one in waiting:
        if joined:
            joined[-1].rooms += one.rooms
            joined[-1].quantifier = joined[-1].quantifier or one.quantifier
            joined[-1].everywhere |= one.everywhere
        else:
            joined.append(one)
    return _share_rooms(_merge_types(joined))


def _merge_types(targets: list[EnglishTarget]) -> list[EnglishTarget]:
    merged: list[EnglishTarget] = []
    for target in targets:
        last = merged[-1] if merged else None
        same = last is not None and last.name is None and target.name is None and last.type == target.type
        if last is not None and same and not target.reference:
            last.rooms += target.rooms
            last.quantifier = last.quantifier or target.quantifier
            last.everywhere |= target.everywhere
        else:
            merged.append(target)
    return merged


def _share_rooms(targets: list[EnglishTarget]) -> list[EnglishTarget]:
    """Give a room behind the last type to the types before it: `the lights and the fan in the kitchen`."""
    if len(targets) > 1 and targets[-1].rooms and not targets[-1].led:
        for target in targets[:-1]:
            if not target.rooms and target.name is None and target.type is not None:
                target.rooms = list(targets[-1].rooms)
    return [replace(target, rooms=list(dict.fromkeys(target.rooms))[:50]) for target in targets]
