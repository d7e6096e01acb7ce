"""Names and rooms of a home, indexed by their English words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from skillbus.queryir.english.lexicon.phrases import find_singular
from skillbus.queryir.english.lexicon.places import ROOM_WORDS
from skillbus.queryir.english.lexicon.types import FAMILY_OF_TYPE, TYPE_WORDS
from skillbus.queryir.english.words.tokens import EnglishWord, split_name
from skillbus.queryir.home import Home
from skillbus.queryir.writing import fold_name

_MAX_WORDS: Final = 12
"""Longest name that is matched, in words."""
_MAX_SHARED: Final = 200
"""Most names that one word may lead to, when the words of a name stand apart."""


@dataclass(slots=True)
class EnglishName:
    """Name or alias of devices, or a room."""

    spelling: str
    words: tuple[str, ...]
    room: bool
    types: set[str] = field(default_factory=set)
    """Types of the devices of that name."""

    @property
    def singulars(self) -> tuple[str, ...]:
        """Words of the name in the singular."""
        return tuple(map(find_singular, self.words))

    def is_type_word(self) -> bool:
        """Return True for a name that is a mere word for a type: `Light`, `Gas`."""
        return self.singulars in TYPE_WORDS


@dataclass(frozen=True, slots=True)
class EnglishMatch:
    """Place of a name in a sentence."""

    start: int
    end: int
    name: EnglishName
    exact: bool
    """False if a word is in another number, or the words are in another order."""


class EnglishNames:
    """Names and rooms of a home by their words."""

    def __init__(self, home: Home) -> None:
        """Index all names, aliases and rooms."""
        self.types = frozenset(home.by_type)
        self._own: dict[tuple[bool, tuple[str, ...]], EnglishName] = {}
        self._exact: dict[tuple[bool, tuple[str, ...]], EnglishName] = {}
        self._loose: dict[tuple[bool, tuple[str, ...]], EnglishName] = {}
        self._by_word: dict[str, list[EnglishName]] = {}
        lengths: dict[str, set[int]] = {}
        for device in home.devices:
            for spelling in (device.name, *device.aliases):
                self._add(spelling, room=False, lengths=lengths).types.add(device.type)
            if device.room is not None:
                self._add(device.room, room=True, lengths=lengths)
        self._lengths = {word: tuple(sorted(found, reverse=True)) for word, found in lengths.items()}
        room_words = {word for (room, words) in self._loose if room for word in words}
        for (room, words), name in self._loose.items():
            own = {word for word in words if (word,) not in TYPE_WORDS and (word,) not in ROOM_WORDS}
            if not room and len(words) > 1 and own - room_words:
                for word in set(words):
                    self._by_word.setdefault(word, []).append(name)

    def _add(self, spelling: str, *, room: bool, lengths: dict[str, set[int]]) -> EnglishName:
        """Index a name, also without an article at its beginning."""
        words = split_name(fold_name(spelling))
        known = self._own.get((room, words))
        if known is None:
            known = self._own[room, words] = self._exact[room, words] = EnglishName(spelling, words, room)
            self._index(known, words, lengths)
            if len(words) > 1 and words[0] in ("the", "my", "our"):
                self._index(known, words[1:], lengths)
        return known

    def _index(self, name: EnglishName, words: tuple[str, ...], lengths: dict[str, set[int]]) -> None:
        self._exact.setdefault((name.room, words), name)
        if 0 < len(words) <= _MAX_WORDS:
            singulars = tuple(map(find_singular, words))
            self._loose.setdefault((name.room, tuple(sorted(singulars))), name)
            for word in set(words) | set(singulars):
                lengths.setdefault(word, set()).add(len(words))

    def find_room(self, words: tuple[str, ...]) -> str | None:
        """Return the home's spelling of a room; None if it has no such room."""
        known = self._own.get((True, words))
        return known.spelling if known is not None else None

    def list_types(self, spelling: str) -> frozenset[str]:
        """Return the types of the devices of a name or alias; none for another text."""
        known = self._own.get((False, split_name(fold_name(spelling))))
        return frozenset(known.types) if known is not None else frozenset()

    def match_names(self, words: Sequence[EnglishWord], *, room: bool) -> Iterator[EnglishMatch]:
        """Yield the places of all names, or of all rooms, that a sentence has without other words between."""
        for start, word in enumerate(words):
            lengths = {*self._lengths.get(word.text, ()), *self._lengths.get(word.singular, ())}
            for length in sorted(lengths, reverse=True):
                end = start + length
                if end > len(words):
                    continue
                part = words[start:end]
                if (name := self._exact.get((room, tuple(one.text for one in part)))) is not None:
                    yield EnglishMatch(start, end, name, exact=True)
                elif (name := self._loose.get((room, tuple(sorted(one.singular for one in part))))) is not None:
                    yield EnglishMatch(start, end, name, exact=False)

    def find_scattered(
        self, words: Sequence[EnglishWord], more: Sequence[str] = ()
    ) -> tuple[EnglishName, tuple[int, ...]] | None:
        """Return the device of which all words but `sensor` stand somewhere among some words, and their places.

        The name that has most words wins. A name of which all words are words of rooms or types is not looked for:
        `the light in the kitchen` is no name. `more` are other words for what was said; they have no place.
        """
        places = {word.singular: index for index, word in enumerate(words)}
        places |= {word: -1 for word in more if word not in places}
        counts: Counter[int] = Counter()
        names: dict[int, EnglishName] = {}
        for word in places:
            found = self._by_word.get(word, ())
            if len(found) <= _MAX_SHARED:
                for name in found:
                    counts[id(name)] += 1
                    names[id(name)] = name
        best: EnglishName | None = None
        for key, count in counts.most_common(_MAX_SHARED):
            name = names[key]
            needed = set(name.singulars) - {"sensor", "detector", "meter"}
            if count >= len(needed) > 1 and needed <= places.keys():
                best = name if best is None or len(needed) > len(best.words) else best
        if best is None:
            return None
        return best, tuple(places[word] for word in set(best.singulars) if places.get(word, -1) >= 0)


_INDEXES: WeakKeyDictionary[Home, EnglishNames] = WeakKeyDictionary()


def load_names(home: Home | None) -> EnglishNames | None:
    """Return the index of a home's names, built with its first English sentence."""
    if home is None:
        return None
    found = _INDEXES.get(home)
    if found is None:
        found = _INDEXES[home] = EnglishNames(home)
    return found


def find_family(types: set[str]) -> str | None:
    """Return the family of types that devices of one name have, or None if they differ or it is unknown."""
    families = {FAMILY_OF_TYPE.get(one, one) for one in types}
    return next(iter(families)) if len(families) == 1 else None
