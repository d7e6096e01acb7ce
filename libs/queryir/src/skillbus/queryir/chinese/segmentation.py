"""Cuts a sentence into words: names of the home, words of the lexicon, quantities, and what nobody knows.

Of all ways to cut it, the one with the least unknown characters counts, then the one with the fewest words; a name
of the home is worth more than a word, and the earlier of two names that overlap more than the later.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from skillbus.queryir.chinese.lexicon import Sense, SenseKind, load_lexicon
from skillbus.queryir.chinese.quantities import Quantity, find_quantities
from skillbus.queryir.home import Home, NameKind, NameMatch
from skillbus.queryir.writing import FoldedText, is_han, is_inside_word

_LONGEST_WORD: Final = 8
_UNKNOWN: Final = 4.0
_WORD: Final = 1.0
_NAME: Final = 0.6
_DOUBT: Final = 0.02
"""Price of the less usual of two ways with words as long."""
_LATER: Final = 1e-6
"""Price of a name for each character before it."""
_LETTER: Final = 0.05
"""Bonus of each character after the first: of two ways with as many words, the one with the longer first word."""


@dataclass(frozen=True, slots=True)
class ChineseWord:
    """Word of a sentence, with all parts that it can play. Without any, nobody knows it."""

    start: int
    end: int
    text: str
    senses: tuple[Sense, ...] = ()
    name: NameMatch | None = None
    """Device of the home with this name."""
    room: NameMatch | None = None
    quantity: Quantity | None = None
    spelling: str = ""
    """Spelling of the sentence."""

    def plays(self, *kinds: SenseKind) -> bool:
        """Return True if the word can play one of the parts."""
        return any(sense.kind in kinds for sense in self.senses)

    def get_value(self, kind: SenseKind) -> str:
        """Return the meaning of the word in a part, or an empty text."""
        return next((sense.value for sense in self.senses if sense.kind is kind), "")

    def list_values(self, kind: SenseKind) -> frozenset[str]:
        """Return all meanings of the word in a part."""
        return frozenset(sense.value for sense in self.senses if sense.kind is kind)


def split_words(text: FoldedText, home: Home | None) -> list[ChineseWord]:
    """Return the words of a sentence. Neighbouring unknown characters are one word."""
    sentence = text.text
    quantities = _index_quantities(sentence)
    best: list[tuple[float, ChineseWord | None]] = [(float("inf"), None) for _ in range(len(sentence) + 1)]
    best[0] = (0.0, None)
    for start in range(len(sentence)):
        cost = best[start][0]
        if cost == float("inf"):
            continue
        for word in _list_words(sentence, start, home, quantities.get(start)):
            price = cost + _price(word) + (_LATER * start if word.name else 0.0)
            if price < best[word.end][0]:
                best[word.end] = (price, word)
    words: list[ChineseWord] = []
    position = len(sentence)
    while position > 0:
        last = best[position][1] or _read_unknown(sentence, position - 1)
        words.append(last)
        position = last.start
    joined = _join_unknown(sentence, _settle_asides(list(reversed(words))))
    return [replace(word, spelling=text.quote_original(word.start, word.end)) for word in joined]


def _price(word: ChineseWord) -> float:
    if not word.senses:
        return _UNKNOWN
    base = _NAME if word.name or word.room else _WORD
    if word.plays(SenseKind.LEAVE):
        base += _DOUBT  # 要不关灯 is 要不, not 不关
    return base - _LETTER * min(word.end - word.start - 1, 6) / 6


def _list_words(sentence: str, start: int, home: Home | None, quantity: Quantity | None) -> Iterator[ChineseWord]:
    lexicon = load_lexicon()
    names, rooms = _match_home(sentence, start, home)
    lengths = {end - start for end in (*names, *rooms)}
    lengths.update(range(1, min(_LONGEST_WORD, len(sentence) - start) + 1))
    if quantity is not None:
        lengths.add(quantity.end - start)
    for length in lengths:
        end = start + length
        word = sentence[start:end]
        senses = () if is_inside_word(sentence, start) or is_inside_word(sentence, end) else lexicon.words.get(word, ())
        if end in names:
            senses = (Sense(SenseKind.NAME), *senses)
        if end in rooms and not any(sense.kind is SenseKind.ROOM for sense in senses):
            senses = (*senses, Sense(SenseKind.ROOM))
        found = quantity if quantity is not None and quantity.end == end else None
        if found:
            senses = (*senses, Sense(SenseKind.QUANTITY, found.unit))
        if senses:
            yield ChineseWord(start, end, word, senses, names.get(end), rooms.get(end), found)
    yield _read_unknown(sentence, start)


def _match_home(
    sentence: str, start: int, home: Home | None
) -> tuple[Mapping[int, NameMatch], Mapping[int, NameMatch]]:
    names: dict[int, NameMatch] = {}
    rooms: dict[int, NameMatch] = {}
    for match in home.match_names(sentence, start) if home else ():
        (rooms if match.kind is NameKind.ROOM else names).setdefault(match.end, match)
    return names, rooms


def _read_unknown(sentence: str, start: int) -> ChineseWord:
    """Return the unknown character at a position, or the rest of the Latin word there."""
    end = start + 1
    while end < len(sentence) and is_inside_word(sentence, end):
        end += 1
    if sentence[start] == " " or not (sentence[start].isalnum() or is_han(sentence[start])):
        return ChineseWord(start, start + 1, sentence[start], (Sense(SenseKind.FILLER),))
    return ChineseWord(start, end, sentence[start:end])


def _index_quantities(sentence: str) -> dict[int, Quantity]:
    return {quantity.start: quantity for quantity in find_quantities(sentence)}


def _settle_asides(words: Sequence[ChineseWord]) -> Iterator[ChineseWord]:
    """Yield the words. People and places are unknown before 的, and else as good as not said: 孩子睡了."""
    for word, after in zip_longest(words, words[1:]):
        if word.plays(SenseKind.ASIDE):
            others = tuple(sense for sense in word.senses if sense.kind is not SenseKind.ASIDE)
            owns = after is not None and after.plays(SenseKind.POSSESSIVE)
            yield replace(word, senses=others if others or owns else (Sense(SenseKind.FILLER),))
        else:
            yield word


def _join_unknown(sentence: str, words: Iterator[ChineseWord]) -> Iterator[ChineseWord]:
    pending: ChineseWord | None = None
    for word in words:
        if word.senses:
            if pending:
                yield pending
            yield word
            pending = None
        else:
            start = pending.start if pending else word.start
            pending = ChineseWord(start, word.end, sentence[start : word.end])
    if pending:
        yield pending
