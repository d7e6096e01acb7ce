"""Collects the devices that a command is about: names, types of devices, and the rooms before them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.queryir.chinese.lexicon import SenseKind, load_lexicon
from skillbus.queryir.chinese.segmentation import ChineseWord
from skillbus.queryir.home import Home, NameMatch
from skillbus.queryir.writing import fold_name

_HEADS: Final = (SenseKind.NAME, SenseKind.TYPE, SenseKind.KIND)
_OPEN_KINDS: Final = frozenset({"light", "fan"})
"""Types with ever new words for some of them: one that the home does not have is a name that it does not have."""
_INSIDE_HINT: Final = (
    SenseKind.TYPE,
    SenseKind.KIND,
    SenseKind.ADJECTIVE,
    SenseKind.COLOUR,
    SenseKind.QUANTITY,
    SenseKind.MODE,
    SenseKind.CONTENT,
)


@dataclass
class Target:
    """Devices that a part of the sentence names."""

    words: list[ChineseWord] = field(default_factory=list)
    rooms: list[str] = field(default_factory=list)
    name: NameMatch | None = None
    hint: str | None = None
    """Name that the home does not have."""
    hint_words: list[ChineseWord] = field(default_factory=list)
    """Words of the hint, without the rooms before it."""
    types: tuple[str, ...] = ()
    """Types that the word for them can mean, the most usual first."""
    owned: tuple[str, ...] = ()
    """Types of the word that 的 joins to a name: 小月亮的灯."""

    @property
    def has_head(self) -> bool:
        """True if it says more than rooms."""
        return bool(self.name or self.hint or self.types)


def spell_room(word: ChineseWord, home: Home | None) -> str:
    """Return the home's word for a room: its spelling, or its only word with the same meaning."""
    if word.room is not None:
        return word.room.spelling
    if home is not None:
        synonyms = load_lexicon().rooms.get(word.text, ())
        known = [home.rooms[one] for one in synonyms if one in home.rooms]
        return known[0] if len(known) == 1 else word.spelling
    return word.spelling


def collect_targets(words: Sequence[ChineseWord], home: Home | None, grouped: bool, hints: bool) -> list[Target]:
    """Return the targets among the words of a command.

    With `grouped` the sentence means several devices: a name that is also a type, or a room with a type, is read so.
    With `hints` unknown words may be a name that the home does not have.
    """
    collector = _Collector(words, home, grouped)
    for index, word in enumerate(words):
        if index < collector.resume:
            continue
        if not word.senses:
            if hints and _is_place(words, index):
                collector.add_place(index)
            elif hints:
                collector.add_hint(index)
        elif _is_room(words, index):
            collector.add_room(index)
        elif word.plays(SenseKind.NAME):
            collector.add_name(index)
        elif _is_mode(words, index):
            collector.add_mode(index)
        elif word.plays(SenseKind.TYPE, SenseKind.KIND):
            collector.add_type(index)
    return collector.finish()


def _is_room(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for a room. A device with the name of a room is meant where nothing follows that is in the room."""
    word = words[index]
    if not word.plays(SenseKind.ROOM):
        return False
    if not word.plays(SenseKind.NAME):
        return True
    after = [
        one for one in words[index + 1 :] if not one.plays(SenseKind.POSSESSIVE, SenseKind.INSIDE, SenseKind.FILLER)
    ]
    heads = (*_HEADS, SenseKind.ROOM, SenseKind.AND, SenseKind.EXCEPT_CLOSE, SenseKind.ALL, SenseKind.PROPERTY)
    return bool(after) and after[0].plays(*heads)


def _is_place(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for an unknown word that 的 joins to a type of devices: 车棚的灯, 沙发旁边的灯."""
    between = (SenseKind.INSIDE, SenseKind.FILLER, SenseKind.POSSESSIVE, SenseKind.ALL)
    after = index + 1
    while after < len(words) and words[after].plays(*between) and not words[after].plays(*_HEADS):
        after += 1
    joined = any(word.text == "的" for word in words[index + 1 : after])
    return joined and after < len(words) and words[after].plays(SenseKind.TYPE, SenseKind.KIND)


def _is_mode(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for 夜灯 of 夜灯模式."""
    after = words[index + 1 : index + 2]
    return words[index].plays(SenseKind.KIND) and bool(after) and after[0].text == "模式"


class _Collector:
    def __init__(self, words: Sequence[ChineseWord], home: Home | None, grouped: bool) -> None:
        self.words = words
        self.home = home
        self.grouped = grouped
        self.targets: list[Target] = []
        self.heads = [word for word in words if word.plays(*_HEADS, SenseKind.REFERENCE)]
        self.rooms: list[str] = []
        self.room_words: list[ChineseWord] = []
        self.resume = 0

    def _is_after(self, index: int, *kinds: SenseKind) -> bool:
        """Return True if the word before, without fillers, plays one of the parts."""
        before = index - 1
        while before >= 0 and self.words[before].plays(SenseKind.FILLER, SenseKind.INSIDE, SenseKind.ALL):
            before -= 1
        return before >= 0 and self.words[before].plays(*kinds)

    def _add(self, index: int, target: Target) -> None:
        target.rooms = self.rooms
        target.hint_words = target.words if target.hint else []
        target.words = [*self.room_words, *target.words]
        self.rooms, self.room_words = [], []
        if not target.rooms and target.types and self.targets and self._is_after(index, SenseKind.AND):
            target.rooms = list(self.targets[-1].rooms)
        self.targets.append(target)

    def add_room(self, index: int) -> None:
        self.rooms.append(spell_room(self.words[index], self.home))
        self.room_words.append(self.words[index])

    def add_place(self, index: int) -> None:
        """Take an unknown word, with what it belongs to, for a room that the home does not have."""
        first = index
        while first > 0 and self._joins(self.words[first - 1], self.words[first]):
            first -= 1
        parts = self.words[first : index + 1]
        self.rooms.append("".join(part.spelling for part in parts))
        self.room_words += parts

    def add_name(self, index: int) -> None:
        word = self.words[index]
        if word.plays(SenseKind.TYPE) and (self.grouped or self._follows_room(index)):
            self.add_type(index)
            return
        joined = self.rooms and (self._is_after(index, SenseKind.AND) or self._lists_room(word))
        types = self._split_name(word) if self.grouped or joined else None
        if types is not None:
            room, found = types
            self.rooms.append(room)
            self._add(index, Target([word], types=found))
        else:
            self._add(index, Target([word], name=word.name))

    def _follows_room(self, index: int) -> bool:
        return bool(self.rooms) and self._is_after(index, SenseKind.ROOM, SenseKind.POSSESSIVE)

    def _lists_room(self, word: ChineseWord) -> bool:
        """Return True for a room directly before a name of another room: 厨房浴室灯. A floor has rooms: 二楼主卧灯."""
        before = self.room_words[-1]
        split = self._split_name(word) if before.end == word.start else None
        return split is not None and split[0] not in self.rooms and not before.text.endswith(("楼", "层"))

    def _split_name(self, word: ChineseWord) -> tuple[str, tuple[str, ...]] | None:
        """Return room and types of a name such as 卧室灯."""
        lexicon = load_lexicon()
        for cut in range(2, len(word.text)):
            room, rest = word.text[:cut], word.text[cut:]
            types = lexicon.list_types(rest)
            if types and self.home is not None and room in self.home.rooms:
                return self.home.rooms[room], types
        return None

    def add_type(self, index: int) -> None:
        word = self.words[index]
        kind = SenseKind.TYPE if word.plays(SenseKind.TYPE) else SenseKind.KIND
        beside_name = self._find_beside(index)
        if beside_name is not None:
            self._add(index, Target([word], name=beside_name))
            return
        types = tuple(word.get_value(kind).split())
        if kind is SenseKind.KIND and (name := self._find_kind(word)):
            self._add(index, name)
            return
        last = self.targets[-1] if self.targets else None
        beside = last is not None and not self.rooms and not self._is_after(index, SenseKind.AND)
        if last is not None and beside and (last.name or last.hint):
            last.owned = types if self._is_after(index, SenseKind.POSSESSIVE) else ()
            return  # the name says it already: 前门的锁
        if last is not None and beside and last.types:
            if last.words[-1].end == word.start:
                last.types = types
                last.words.append(word)
            elif last.types != types:
                self._add(index, Target([word], types=types))
            return
        self._add(index, Target([word], types=types))

    def add_mode(self, index: int) -> None:
        """Take 夜灯模式 for the name of a scene, unless it is a mode of a device."""
        if not self.targets:
            parts = list(self.words[index : index + 2])
            self._add(index, Target(parts, hint="".join(part.text for part in parts)))

    def _find_kind(self, word: ChineseWord) -> Target | None:
        """Return the target of a word such as 台灯: a name of the home with it, or the word itself as a name."""
        if self.home is None:
            return Target([word], hint=word.text)
        match = self._find_in_rooms(word, [fold_name(room) for room in self.rooms])
        if match is not None:
            self.rooms, self.room_words = [], []
            return Target([word], name=match)
        unknown = not self.rooms and not self.grouped and word.get_value(SenseKind.KIND) in _OPEN_KINDS
        return Target([word], hint=word.text) if unknown or self.home.has_name_with(word.text) else None

    def _find_in_rooms(self, word: ChineseWord, rooms: Sequence[str]) -> NameMatch | None:
        """Return the device whose name is a room and this word: 主卧 and 纱帘 say 主卧纱帘."""
        for room in rooms:
            match = next(self.home.match_names(room + word.text, 0), None) if self.home else None
            if match is not None and match.end == len(room) + len(word.text):
                return match
        return None

    def _find_beside(self, index: int) -> NameMatch | None:
        """Return the device that shares its room with the name before 和: 主卧窗帘和纱帘."""
        before = self.targets[-1].name if self.targets and not self.rooms else None
        if before is None or not self._is_after(index, SenseKind.AND):
            return None
        return self._find_in_rooms(self.words[index], [fold_name(one.room) for one in before.devices if one.room])

    def add_hint(self, index: int) -> None:
        """Take an unknown word for a name that the home does not have, unless another device is named."""
        named = any(not self._touches(word, index) for word in self.heads[:2])
        after = self.words[index + 1 : index + 2]
        joined = self._is_after(index, SenseKind.AND) or (bool(after) and after[0].plays(SenseKind.AND))
        if (named or any(target.has_head for target in self.targets)) and not joined:
            return
        first = index
        while first > 0 and self._joins(self.words[first - 1], self.words[first]):
            if self.words[first - 1].plays(SenseKind.TYPE, SenseKind.KIND):
                break
            first -= 1
        last = index
        while last + 1 < len(self.words) and self._joins(self.words[last + 1], self.words[last]):
            last += 1
        if last + 1 < len(self.words) and self.words[last + 1].text == "模式":
            last += 1
        parts = list(self.words[first : last + 1])
        while self.targets and self.targets[-1].words and self.targets[-1].words[-1] in parts:
            self.rooms = self.targets.pop().rooms
        self.resume = last + 1
        self._add(index, Target(parts, hint="".join(part.text for part in parts)))

    def _touches(self, word: ChineseWord, index: int) -> bool:
        """Return True for a type directly after an unknown word: 床投灯."""
        return word.start == self.words[index].end and not word.plays(SenseKind.NAME)

    @staticmethod
    def _joins(word: ChineseWord, beside: ChineseWord) -> bool:
        adjacent = beside.start == word.end or word.start == beside.end
        return adjacent and (not word.senses or (word.plays(*_INSIDE_HINT) and not word.plays(SenseKind.NAME)))

    def finish(self) -> list[Target]:
        if self.rooms:
            open_targets = [target for target in self.targets if not target.rooms and target.types]
            for target in open_targets:
                target.rooms = list(self.rooms)
            if not open_targets:
                self.targets.append(Target(self.room_words, rooms=self.rooms))
        return _merge_targets(self.targets)


def _merge_targets(targets: Sequence[Target]) -> list[Target]:
    """Join targets of one type: 客厅的灯和卧室的灯. Of a device that is named twice, one remains."""
    merged: list[Target] = []
    for target in targets:
        same = next((one for one in merged if _is_same(one, target)), None)
        if same is None:
            merged.append(target)
        else:
            same.words += target.words
            same.rooms += [room for room in target.rooms if room not in same.rooms]
    if any(target.has_head for target in merged):
        loose = [target for target in merged if not target.has_head]
        merged = [target for target in merged if target.has_head]
        for target in merged:
            if not target.name:
                target.rooms += [room for one in loose for room in one.rooms if room not in target.rooms]
    return merged


def _is_same(one: Target, other: Target) -> bool:
    if one.name or other.name or one.hint or other.hint:
        return one.name is not None and other.name is not None and one.name.spelling == other.name.spelling
    return one.types == other.types
