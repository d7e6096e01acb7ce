"""Names, rooms and types of several words in a sentence, the longest first."""

from collections.abc import Sequence
from typing import Final

from skillbus.queryir.english.lexicon.phrases import read_words
from skillbus.queryir.english.lexicon.places import ROOM_ADJECTIVES, ROOM_HEADS, ROOM_WORDS
from skillbus.queryir.english.lexicon.types import TYPE_WORDS
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.names import EnglishMatch, EnglishNames
from skillbus.queryir.english.words.scan import Scan, is_broken, make_item
from skillbus.queryir.english.words.tokens import EnglishWord

_NEVER_NAMES: Final = read_words(
    """
    the a an it on off in and or all to of is at for with please this that
    """
)


def find_spans(words: Sequence[EnglishWord], texts: list[str], names: EnglishNames | None) -> dict[int, Item]:
    """Return the names, rooms and types of several words, longest first, by their first word."""
    found: list[tuple[int, int, int, Item]] = []
    scan = Scan(words, texts, [word.singular for word in words], {})
    if names is not None:
        for rank, room in ((0, False), (1, True)):
            for match in names.match_names(words, room=room):
                if not _is_doubtful(match, words):
                    behind = _follows_locative(texts, match.start)
                    order = (0 if room else 1) if behind else rank
                    found.append((match.start - match.end, order, match.start, _make_name(scan, match)))
    for start in range(len(words)):
        if (length := _match_room(words, scan.singulars, start)) > 0:
            item = make_item(scan, EnglishRole.ROOM, start, length, meaning=_spell_room(scan, start, length))[1]
            found.append((-length, 2, start, item))
        kind = TYPE_WORDS.match(scan.singulars, start)
        if kind is not None and kind[0] > 1:
            item = make_item(scan, EnglishRole.TYPE, start, kind[0], meaning=kind[1])[1]
            found.append((-kind[0], 3, start, item))
    return _choose_longest(scan, found)


def _choose_longest(scan: Scan, found: list[tuple[int, int, int, Item]]) -> dict[int, Item]:
    taken: set[int] = set()
    spans: dict[int, Item] = {}
    for _, _, start, item in sorted(found, key=lambda one: one[:3]):
        if not is_broken(scan, start, item.end) and taken.isdisjoint(range(start, item.end)):
            taken.update(range(start, item.end))
            spans[start] = item
    return spans


def _is_doubtful(match: EnglishMatch, words: Sequence[EnglishWord]) -> bool:
    """Return True for a match that is no name: a function word, or another number of a single word."""
    single = match.end - match.start == 1
    if single:
        return words[match.start].text in _NEVER_NAMES or (not match.exact and not match.name.room)
    if match.exact or match.name.room:
        return False
    last = words[match.end - 1]
    plural = last.text != last.singular and last.text != match.name.words[-1]
    return plural and (last.singular,) in TYPE_WORDS and (match.name.singulars[-1],) in TYPE_WORDS


def _follows_locative(texts: Sequence[str], start: int) -> bool:
    before = start - 1
    if before >= 0 and texts[before] in ("the", "my", "our"):
        before -= 1
    return before >= 0 and texts[before] in ("in", "inside", "at", "within")


def _make_name(scan: Scan, match: EnglishMatch) -> Item:
    length = match.end - match.start
    role = EnglishRole.ROOM if match.name.room else EnglishRole.NAME
    return make_item(scan, role, match.start, length, meaning=match.name.spelling, name=match.name, exact=match.exact)[
        1
    ]


def _match_room(words: Sequence[EnglishWord], singulars: list[str], start: int) -> int:
    """Return the length of a room that the home may lack: a usual room, with whose or which it is."""
    length = 0
    if (room := ROOM_WORDS.match(singulars, start)) is not None:
        length = room[0]
    word = words[start]
    if word.possessive or word.text in ROOM_ADJECTIVES:
        following = start + 1
        if word.possessive and following < len(words) and words[following].text in ROOM_ADJECTIVES:
            following += 1
        if following < len(words) and singulars[following] in ROOM_HEADS:
            further = ROOM_WORDS.match(singulars, following)
            length = max(length, following - start + (further[0] if further is not None else 1))
    return length


def _spell_room(scan: Scan, start: int, length: int) -> str:
    """Return a room as it was said, in the singular: `bedrooms` is `bedroom`."""
    words = scan.words[start : start + length]
    spelled = [f"{word.text}'s" if word.possessive else word.text for word in words]
    if words[-1].text.endswith("room") or words[-1].singular.endswith("room"):
        spelled[-1] = words[-1].singular
    return " ".join(spelled)
