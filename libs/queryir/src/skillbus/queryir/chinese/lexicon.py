"""Lexicon of spoken commands: the words of `words.txt`, each with the parts that it can play in a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from itertools import product


class SenseKind(StrEnum):
    """Part that a word can play in a sentence."""

    NAME = "name"
    """Name of a device of the home."""
    ROOM = "room"
    TYPE = "type"
    """Word for a type of devices, such as 灯."""
    KIND = "kind"
    """Word for some devices of a type, such as 台灯. It is a name rather than a type."""
    MEASURE = "measure"
    """Something that a sensor reports, such as 漏水."""
    VERB = "verb"
    PROPERTY = "property"
    """Property that can be set, such as 亮度."""
    ADJECTIVE = "adjective"
    EXTREME = "extreme"
    """最大, 最低 and the like."""
    STEP = "step"
    """一点, 一些 and the like."""
    DEGREE = "degree"
    """有点, 太 and the like: before an adjective it complains, it does not ask."""
    COLOUR = "colour"
    KELVIN = "kelvin"
    """Word for white light of a colour temperature."""
    MODE = "mode"
    CONTENT = "content"
    """Something that is played."""
    QUANTITY = "quantity"
    """Number with its unit, or without."""
    ALL = "all"
    DISTRIBUTIVE = "distributive"
    """都: all of what was named before."""
    ONE = "one"
    SOME = "some"
    REFERENCE = "reference"
    DEMONSTRATIVE = "demonstrative"
    """那盏, 这个: a reference, unless a name or room says which."""
    EXCEPT_OPEN = "except_open"
    EXCEPT_CLOSE = "except_close"
    OTHER = "other"
    KEEP = "keep"
    LEAVE = "leave"
    """别动, 不管: what stands before or after it is left out."""
    RHETORIC = "rhetoric"
    """干嘛, 怎么: the clause is a reason, if another one asks for something."""
    CONDITION = "condition"
    """如果: conditions are not read."""
    NOT = "not"
    """别, 不要."""
    NOT_YET = "not_yet"
    """没, 没有: negation of a state, or at the end a question."""
    QUESTION = "question"
    SOFT_QUESTION = "soft_question"
    """吗 and 呢, at the end of a question."""
    POLITE = "polite"
    MODAL = "modal"
    """能, 可以, 好吗: with them a question is a request."""
    OBJECT = "object"
    """把 and its like, before what the command is about."""
    POSSESSIVE = "possessive"
    ASPECT = "aspect"
    AND = "and"
    THEN = "then"
    AGAIN = "again"
    """再, 也: a new command only between two commands."""
    PAUSE = "pause"
    """Punctuation between clauses."""
    INSIDE = "inside"
    """里, 里面: after a room."""
    GREETING = "greeting"
    FILLER = "filler"
    ASIDE = "aside"
    """People and places of remarks: 孩子睡了. Before 的 they say which device is meant: 孩子的灯."""
    RECENT = "recent"
    """刚才, 刚刚: what follows was mentioned."""


@dataclass(frozen=True, slots=True)
class Sense:
    """Part that a word can play, and its meaning there."""

    kind: SenseKind
    value: str = ""


@dataclass(frozen=True, slots=True)
class ChineseLexicon:
    """Words with their senses."""

    words: Mapping[str, tuple[Sense, ...]]
    rooms: Mapping[str, tuple[str, ...]]
    """Words for the same room, by each of them."""
    narrower_rooms: Mapping[str, frozenset[str]]
    """Words for rooms of a kind, by each word for the kind: 主卧 and 次卧 are kinds of 卧室."""

    def list_types(self, word: str) -> tuple[str, ...]:
        """Return the device types that a word means, the most usual first."""
        return next(
            (tuple(sense.value.split()) for sense in self.words.get(word, ()) if sense.kind is SenseKind.TYPE), ()
        )


@cache
def load_lexicon() -> ChineseLexicon:
    """Return the lexicon, read with the first sentence in Chinese."""
    source = (resources.files("skillbus.queryir.chinese") / "words.txt").read_text(encoding="utf-8")
    builder = _LexiconBuilder()
    kind = value = ""
    for line in source.splitlines():
        if line.startswith("["):
            kind, _, value = line[1:-1].partition(" ")
        elif line and not line.startswith("#"):
            builder.add_line(kind, value, tuple(line.split()))
    return builder.build()


class _LexiconBuilder:
    """Words of the lexicon, and the parts of which more words are made.

    Words that count (`counted`: 哪, 每, 那几) stand before each word for a unit (`measure_word`: 盏, 道). Each verb of
    the hand (`stem`) makes a word with each of its results (`result`): 摁灭, 拧开. A verb with its object
    (`object_noun`) may have a measure between them (`separating`): 浇会儿水, 烧壶水.
    """

    def __init__(self) -> None:
        self.words: dict[str, list[Sense]] = {}
        self.rooms: dict[str, tuple[str, ...]] = {}
        self.narrower: dict[str, tuple[str, ...]] = {}
        self.parts: dict[str, list[str]] = {"stem": [], "separating": [], "object_noun": [], "measure_word": []}
        self.results: dict[str, Sense] = {}
        self.counted: list[tuple[str, Sense]] = []

    def add_line(self, kind: str, value: str, group: tuple[str, ...]) -> None:
        """Take a line of words under its heading."""
        if kind in self.parts:
            self.parts[kind] += group
        elif kind == "counted":
            self.counted += [(word, Sense(SenseKind(value))) for word in group]
        elif kind == "result":
            self.results |= dict.fromkeys(group, Sense(SenseKind.VERB, value))
        elif kind == "narrower_room":
            self.narrower[group[0]] = group[1:]
        else:
            sense = Sense(SenseKind(kind), value)
            for word in group:
                self._add(word, sense)
            if sense.kind is SenseKind.ROOM:
                self.rooms |= dict.fromkeys(group, group)

    def _add(self, word: str, sense: Sense) -> None:
        found = self.words.setdefault(word, [])
        if sense not in found:
            found.append(sense)

    def build(self) -> ChineseLexicon:
        """Make the words that consist of parts."""
        for (before, sense), measure in product(self.counted, self.parts["measure_word"]):
            self._add(before + measure, sense)
        for stem, (result, sense) in product(self.parts["stem"], self.results.items()):
            self.words.setdefault(stem + result, [sense])
        self._separate_verbs()
        narrower = {
            word: frozenset(one for room in narrow for one in self.rooms[room])
            for wide, narrow in self.narrower.items()
            for word in self.rooms[wide]
        }
        return ChineseLexicon({word: tuple(senses) for word, senses in self.words.items()}, self.rooms, narrower)

    def _separate_verbs(self) -> None:
        """Add each verb of a verb and its object with what may stand between them: 浇会儿水 for 浇水."""
        objects = frozenset(self.parts["object_noun"])
        verbs = [
            (word, senses)
            for word, senses in self.words.items()
            if len(word) > 1 and word[1:] in objects and any(one.kind is SenseKind.VERB for one in senses)
        ]
        for (word, senses), between in product(verbs, self.parts["separating"]):
            verbal = [one for one in senses if one.kind in (SenseKind.VERB, SenseKind.PROPERTY)]
            self.words.setdefault(word[0] + between + word[1:], verbal)
