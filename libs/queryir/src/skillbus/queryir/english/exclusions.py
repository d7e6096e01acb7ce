"""Cuts what a clause leaves out: `except the bedroom`, `but not the TV`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.queryir.english.lexicon.places import ROOM_WORDS
from skillbus.queryir.english.lexicon.types import TYPE_WORDS
from skillbus.queryir.english.words.items import EnglishRole, Item

_ENDS: Final = frozenset(
    {
        EnglishRole.VERB,
        EnglishRole.QUESTION,
        EnglishRole.VALUE,
        EnglishRole.THEN,
        EnglishRole.KEEPER,
        EnglishRole.STATE,
        EnglishRole.BASE,
    }
)
_NOUNS: Final = frozenset({EnglishRole.ROOM, EnglishRole.NAME, EnglishRole.TYPE, EnglishRole.WORD})
_GOING: Final = frozenset({"running", "going", "working", "playing", "alone", "be", "untouched", "unchanged"})
"""Participles for what a device does that is left as it is: `keep the fan running`."""
_SKIPPED: Final = frozenset(
    {EnglishRole.AND, EnglishRole.FUNCTION, EnglishRole.FILLER, EnglishRole.QUANTIFIER, EnglishRole.EXCEPTION}
)


@dataclass(slots=True)
class Exclusion:
    """Rooms, names and types that are left out."""

    things: list[str] = field(default_factory=list)
    """Rooms, names and types, as the sentence says them."""
    type: str | None = None
    """Type of `the bedroom light`, of which only the room is left out if no device has that name."""
    type_text: str = ""
    reference: bool = False
    """True for `except that one`."""
    said: bool = False


def cut_exclusion(items: Sequence[Item]) -> tuple[list[Item], Exclusion]:
    """Return the items without those that are left out, and what is left out."""
    rest: list[Item] = []
    exclusion = Exclusion()
    position = 0
    while position < len(items):
        if items[position].role is not EnglishRole.EXCEPTION:
            rest.append(items[position])
            position += 1
            continue
        end = _find_end(items, position + 1)
        part = items[position + 1 : end]
        if any(item.role not in _SKIPPED for item in part):
            read_exclusion(part, exclusion)
            rest += _find_place(part)
        position = end
    return rest, exclusion


def _find_place(part: Sequence[Item]) -> list[Item]:
    """Return the room of `everything but the TV in the loft off`: a name needs none, so that it limits the rest."""
    nouns = [item for item in part if item.role in _NOUNS]
    if len(nouns) == 2 and nouns[0].role is EnglishRole.NAME and nouns[1].role is EnglishRole.ROOM:
        between = [item.text for item in part if nouns[0].end <= item.start < nouns[1].start]
        return [nouns[1]] if between[:1] == ["in"] else []
    return []


def _find_end(items: Sequence[Item], start: int) -> int:
    """Return the end of what an exception leaves out."""
    opens = not any(
        item.role in (EnglishRole.TYPE, EnglishRole.NAME, EnglishRole.QUANTIFIER, EnglishRole.VERB)
        for item in items[: start - 1]
    )
    named = False
    for index in range(start, len(items)):
        item = items[index]
        if item.role in _ENDS or (item.role is EnglishRole.AND and item.text == "but"):
            return index
        if item.comma and opens and named and not _continues_list(items, index):
            return index
        if item.role is EnglishRole.PARTICLE and named and not _is_preposition(items, index):
            return index
        named = named or item.role in (
            EnglishRole.ROOM,
            EnglishRole.NAME,
            EnglishRole.TYPE,
            EnglishRole.WORD,
            EnglishRole.REFERENCE,
        )
    return len(items)


def _continues_list(items: Sequence[Item], index: int) -> bool:
    """Return True for a comma of a list: another room or name, and a comma or `and` behind it."""
    for item in items[index:]:
        if item.role in (EnglishRole.QUANTIFIER, EnglishRole.OTHERS, EnglishRole.VERB):
            return False
        if item.role is EnglishRole.AND:
            return True
    return False


def _is_preposition(items: Sequence[Item], index: int) -> bool:
    if items[index].text != "on":
        return False
    following = [item for item in items[index + 1 : index + 3] if item.text not in ("the", "my", "our")]
    return bool(following) and following[0].role in (EnglishRole.ROOM, EnglishRole.NAME)


def _leads_on(part: Sequence[Item], reference: Item) -> bool:
    """Return True for `the one in the loft`, `those of the kitchen`: a room says which."""
    return any(item.start >= reference.end and item.role in _NOUNS for item in part)


def read_exclusion(part: Sequence[Item], exclusion: Exclusion) -> None:
    """Add rooms, names and types of a noun phrase to what is left out."""
    exclusion.said = True
    words: list[str] = []
    previous: Item | None = None
    for item in part:
        if item.role is EnglishRole.WORD:
            words += [] if item.text in _GOING else [item.text]
            continue
        if item.role is EnglishRole.TYPE:
            _leave_type(exclusion, item, words, previous)
        elif words:
            exclusion.things.append(" ".join(words))
        words = []
        named = previous is not None and previous.role is EnglishRole.NAME
        if item.role is EnglishRole.NAME or (item.role is EnglishRole.ROOM and not named):
            exclusion.things.append(item.meaning)
            _imply_type(exclusion, item)
        elif item.role is EnglishRole.REFERENCE:
            exclusion.reference = exclusion.reference or not _leads_on(part, item)
        if item.role in _NOUNS or item.role is EnglishRole.AND or item.comma:
            previous = item
    exclusion.things += [" ".join(words)] if words else []
    exclusion.things = [thing[:200] for thing in dict.fromkeys(exclusion.things)][:50]


def _imply_type(exclusion: Exclusion, item: Item) -> None:
    """Imply the type of a name that is a room and a type: all but `the hall light` are lights."""
    words = item.name.singulars if item.role is EnglishRole.NAME and item.name is not None else ()
    for cut in range(1, len(words)):
        if words[:cut] in ROOM_WORDS and (kind := TYPE_WORDS.get(words[cut:])) is not None:
            exclusion.type, exclusion.type_text = kind, " ".join(words[cut:])
            return


def _leave_type(exclusion: Exclusion, item: Item, words: Sequence[str], previous: Item | None) -> None:
    """Leave out a type; of `the loft light` the room, and of `the desk light` the name."""
    if words:
        exclusion.things.append(" ".join([*words, item.text]))
    elif previous is not None and previous.role is EnglishRole.ROOM:
        exclusion.type, exclusion.type_text = item.meaning, item.text
    else:
        exclusion.things.append(item.text)
        exclusion.type_text = item.text
