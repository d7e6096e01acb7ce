"""Grammar of spoken commands in Chinese: from the words of a sentence to queries."""

from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError

from skillbus.contracts.retriever.query_ir import MAX_QUERIES, Quantifier, QueryArguments, QueryIR, Reference
from skillbus.queryir.actions import ActionCode, get_action_word
from skillbus.queryir.chinese.clauses import CommandWords, split_commands
from skillbus.queryir.chinese.exclusions import ExclusionReading, take_exclusions
from skillbus.queryir.chinese.families import VERB_TYPES, choose_type, get_family, is_retractable
from skillbus.queryir.chinese.intents import CommandSigns, Intent, read_intent
from skillbus.queryir.chinese.lexicon import SenseKind
from skillbus.queryir.chinese.quantities import Unit
from skillbus.queryir.chinese.roles import is_describing, is_verb, settle_complements
from skillbus.queryir.chinese.segmentation import ChineseWord, split_words
from skillbus.queryir.chinese.targets import Target, collect_targets
from skillbus.queryir.home import Home
from skillbus.queryir.sentence import OWN_ROOM_DOUBT, ParsedSentence, SpeakerPlace
from skillbus.queryir.writing import FoldedText, fold_name

_QUANTIFIERS: Final = {
    SenseKind.ONE: Quantifier.ONE,
    SenseKind.ALL: Quantifier.ALL,
    SenseKind.DISTRIBUTIVE: Quantifier.ALL,
    SenseKind.SOME: Quantifier.SOME,
}
_TARGET_FIELDS: Final = ("name_hint", "type_hint", "scope_include", "scope_exclude", "quantifier", "references")
_OWN_ROOMS: Final = frozenset({"我房间", "我屋", "我屋里", "我的房间", "我那屋"})
"""Room of the speaker, who is not known."""
_HERE: Final = frozenset(
    {
        "这个房间",
        "这间房",
        "这屋",
        "这间屋子",
        "本房间",
        "这个屋子",
        "这房间",
        "这个屋",
        "我这里",
        "我这边",
        "这里",
        "这儿",
    }
)
_ANYTHING: Final = frozenset({"东西", "设备", "电器"})
"""Words for devices of any type."""
_PLACES: Final = frozenset({"地方", "房间", "区域", "屋", "屋子"})
_LONGEST_NAME: Final = 200
_LOCKED: Final = frozenset({"了", "好", "好了", "上", "上了", "住", "住了", "紧", "一下", "起来"})
"""Results of locking, behind the verb."""
_PLAYING: Final = frozenset({"play", "pause", "next", "previous"})
"""Verbs after which unknown words are what is played, not a device."""


def read_sentence(text: FoldedText, home: Home | None) -> ParsedSentence:
    """Read a sentence in Chinese."""
    words = settle_complements(split_words(text, home))
    unread = {word.start: word for word in words if not word.senses}
    queries: list[QueryIR] = []
    for command in split_commands(words)[:MAX_QUERIES]:
        reading = _CommandReading(command, text, home, queries[-1] if queries else None)
        queries += reading.list_queries()
        for start in reading.understood:
            unread.pop(start, None)
    spans = tuple(text.quote_original(word.start, word.end) for word in unread.values())
    return ParsedSentence("zh", tuple(queries[:MAX_QUERIES]), spans, _find_place(words))


def _find_place(words: Sequence[ChineseWord]) -> SpeakerPlace | None:
    texts = {word.text for word in words if word.name is None and word.room is None}
    if texts & _OWN_ROOMS:
        return SpeakerPlace.OWN_ROOM
    return SpeakerPlace.HERE if texts & _HERE else None


class _CommandReading:
    """Reading of one command."""

    def __init__(self, command: CommandWords, text: FoldedText, home: Home | None, before: QueryIR | None) -> None:
        self.text = text
        self.home = home
        self.before = before if command.inherits else None
        self.parts: ExclusionReading = take_exclusions(command.words)
        self.signs = CommandSigns(self.parts.words)
        grouped = (self._count() or 0) > 1 or any(word.plays(SenseKind.ALL, SenseKind.ONE) for word in self.parts.words)
        self.targets = (
            collect_targets(self.parts.words, home, grouped=grouped, hints=self.signs.verb not in _PLAYING)
            or self._read_mode_name()
        )
        self.excluded = collect_targets(self.parts.excluded, home, grouped=False, hints=True)
        self.understood = {word.start for target in self.excluded for word in target.words}

    def _read_mode_name(self) -> list[Target]:
        """Return the name of a scene that the home does not have: 打开观影模式."""
        words = self.parts.words
        for index, word in enumerate(words):
            if word.text == "模式" and index and words[index - 1].plays(SenseKind.MODE):
                return [Target([words[index - 1], word], hint=words[index - 1].text + word.text)]
            if word.plays(SenseKind.MODE) and word.text.endswith("模式"):
                return [Target([word], hint=word.text)]
        return []

    def list_queries(self) -> list[QueryIR]:
        """Return a query for each device or type of devices that the command names."""
        queries = [self._build_query(target) for target in self.targets or [Target()]]
        return [query for query in queries if query is not None]

    def _build_query(self, target: Target) -> QueryIR | None:
        kind = self._choose_type(target)
        family = get_family(target.name.devices[0].type if target.name else kind)
        if family in ("cover", "") and is_retractable(_list_names(target)):
            family = "retractable"
        if target.hint and target.hint.endswith("模式"):
            family = "scene"
        intent = read_intent(self.signs, family, has_target=target.has_head or bool(target.rooms) or self._refers())
        if self.parts.keeps and intent.code is None:
            intent.code = ActionCode.TURN_OFF
        if intent.code is None and self._locks_by_name(target):
            intent.code = ActionCode.LOCK
        kind = kind or self._read_measure(target, intent)
        if not target.has_head and not self._refers() and kind is None and self.before is None:
            kind = self._imply_verb_type()
        is_known = target.name is not None or target.types or self._refers()
        if intent.code is None and (self._forbids() or not is_known):
            return None
        self.understood.update(word.start for word in target.words)
        if self.signs.ended is not None:
            self.understood.add(self.signs.ended.start)
        arguments = self._read_arguments(intent)
        quantifier = self._choose_quantifier(intent)
        query = QueryIR(
            action=get_action_word(intent.code, "zh") if intent.code else "",
            action_code=intent.code,
            name_hint=self._spell_name(target),
            type_hint=kind if not (target.name or target.hint) else None,
            scope_include=tuple(dict.fromkeys(target.rooms))[:50],
            scope_exclude=self._list_excluded(),
            quantifier=quantifier,
            references=(Reference.LAST_MENTIONED,) if self._refers(target) else (),
            arguments=arguments,
            confidence=self._rate(target, intent, kind),
        )
        return self._inherit(query)

    def _imply_verb_type(self) -> str | None:
        """Return the type of the devices that a verb is about: 锁门, 停止扫地."""
        verbs = (value for word in self.parts.words for value in word.list_values(SenseKind.VERB))
        return next((VERB_TYPES[value] for value in verbs if value in VERB_TYPES), None)

    def _locks_by_name(self, target: Target) -> bool:
        """Return True for a name whose end is the verb of the command: 把大门锁了 where a lock is called 大门锁."""
        if target.name is None or not target.words[-1].text.endswith("锁"):
            return False
        following = [word.text for word in self.parts.words if word.start >= target.words[-1].end]
        return bool(following) and following[0] in _LOCKED

    def _forbids(self) -> bool:
        """Return True for a command that asks for nothing: 别关灯."""
        return any(word.plays(SenseKind.NOT, SenseKind.LEAVE) for word in self.parts.words)

    def _inherit(self, query: QueryIR) -> QueryIR:
        if self.before is None or query.references:
            return query
        if any(word.plays(SenseKind.OTHER) for word in self.parts.words) and not self.parts.found:
            return _take_others(query, self.before)
        return query.model_copy(update={name: getattr(self.before, name) for name in _TARGET_FIELDS})

    def _choose_type(self, target: Target) -> str | None:
        types = self._imply_types() if self.parts.found and not target.has_head else target.types
        if self.signs.is_question and not self.signs.locks and len(types) > 1:
            types = tuple(one for one in types if one != "lock")  # 哪些门开着 asks for doors
        return choose_type(types, self.home, target.rooms, locks=self.signs.locks)

    def _imply_types(self) -> tuple[str, ...]:
        """Return the types of what is left out, for what remains: 除了卧室的灯都关. All that is left out must agree."""
        if any(word.text in _ANYTHING for word in self.parts.words):
            return ()  # 除了台灯，书房的东西都关掉
        found = {_imply_type(target) for target in self.excluded if target.has_head}
        return found.pop() if len(found) == 1 else ()

    def _read_measure(self, target: Target, intent: Intent) -> str | None:
        if not intent.is_question or target.has_head:
            return None
        for word in self.parts.words:
            if word.plays(SenseKind.MEASURE):
                return word.get_value(SenseKind.MEASURE)
        return None

    def _refers(self, target: Target | None = None) -> bool:
        words = self.parts.words
        if self._excludes_reference():
            return True
        if any(word.plays(SenseKind.REFERENCE) and not word.plays(SenseKind.NAME) for word in words):
            return not (target and target.name)
        if target is not None and target.name:
            return False
        if any(word.plays(SenseKind.RECENT) for word in words):
            described = any(is_verb(word) and is_describing(words, index) for index, word in enumerate(words))
            if described or any(word.plays(SenseKind.DEMONSTRATIVE) for word in words):
                return True
        here = target is not None and target.rooms
        return not here and any(word.plays(SenseKind.DEMONSTRATIVE) for word in words)

    def _excludes_reference(self) -> bool:
        """Return True for 除了这个."""
        kinds = (SenseKind.REFERENCE, SenseKind.DEMONSTRATIVE)
        return not self.excluded and any(word.plays(*kinds) for word in self.parts.excluded)

    def _spell_name(self, target: Target) -> str | None:
        if target.name is not None:
            return target.name.spelling
        if target.hint is None:
            return None
        words = target.hint_words or target.words
        return self.text.quote_original(words[0].start, words[-1].end)[:_LONGEST_NAME] or None

    def _list_excluded(self) -> tuple[str, ...]:
        found: list[str] = []
        for target in self.excluded:
            if target.name is not None or target.hint is not None:
                found.append(self._spell_name(target) or "")
            elif target.rooms:
                found += target.rooms
            else:
                found.append(self.text.quote_original(target.words[0].start, target.words[-1].end))
        return tuple(dict.fromkeys(one[:_LONGEST_NAME] for one in found if one))[:50]

    def _choose_quantifier(self, intent: Intent) -> Quantifier | None:
        words = self.parts.words
        if self.parts.found and (self.excluded or self._excludes_reference()):
            return Quantifier.EXCEPT
        if intent.is_question:
            return None

        count = self._count() or 0
        if count > 1:
            return Quantifier.COUNT
        if self.signs.halves and intent.code is ActionCode.TURN_OFF:
            return Quantifier.SOME
        for kind, quantifier in _QUANTIFIERS.items():
            if any(word.plays(kind) and not _is_step(words, index) for index, word in enumerate(words)):
                return quantifier
        return Quantifier.ONE if count == 1 else None

    def _count(self) -> int | None:
        stations = self.signs.sets  # 转到53台
        words, placed = self.parts.words, False
        for index, word in enumerate(words):
            quantity = word.quantity
            placed = placed or word.plays(SenseKind.ROOM)
            if placed and _counts_rooms(words, index):
                continue
            if quantity is not None and quantity.unit is Unit.COUNT and not (stations and word.text.endswith("台")):
                return int(quantity.value) if 1 <= quantity.value <= 10_000 else None
        return None

    def _read_arguments(self, intent: Intent) -> QueryArguments:
        values: dict[str, object] = dict(intent.values)
        for word in self.parts.words:
            quantity = word.quantity
            if quantity is not None and quantity.unit is Unit.AT:
                values["at"] = quantity.text
            elif quantity is not None and quantity.unit is Unit.AFTER:
                values["after_s"] = quantity.value
            elif quantity is not None and quantity.unit is Unit.DURATION:
                values["for_s"] = quantity.value
        if self._choose_quantifier(intent) is Quantifier.COUNT:
            values["count"] = self._count()
        while True:
            try:
                return QueryArguments.model_validate(values)
            except ValidationError as error:
                for problem in error.errors():
                    values.pop(str(problem["loc"][0]), None)

    def _rate(self, target: Target, intent: Intent, kind: str | None) -> float:
        """Return 1 less what is missing, guessed or unread."""
        doubt = 0.0
        if intent.code is None:
            doubt += 0.6
        elif intent.guessed:
            doubt += 0.3
        shared = self._choose_quantifier(intent) is not None
        if not (target.has_head or kind or target.rooms or shared or self._refers() or self.before):
            doubt += 0.4
        if any(word.plays(SenseKind.CONDITION) for word in self.parts.words):
            doubt += 0.5
        if target.hint or any(not word.senses for word in target.words):
            doubt += 0.3 if self.home is not None else 0.15
        unread = [word for word in self.parts.words if not word.senses and word.start not in self.understood]
        doubt += min(0.4, 0.1 * len(unread))
        if not target.rooms and any(word.text in _OWN_ROOMS for word in self.parts.words):
            doubt += OWN_ROOM_DOUBT
        if self._has_loose_number(intent):
            doubt += 0.4
        if any(it.quantity is not None and it.quantity.unit is Unit.ORDINAL for it in self.parts.words):
            doubt += 0.5
        return round(max(0.05, 1.0 - doubt), 2)

    def _has_loose_number(self, intent: Intent) -> bool:
        """Return True for a number that is neither a value nor a count: it may tell devices apart, as in 窗帘17."""
        values = intent.values.values()
        numbers = (word.quantity for word in self.parts.words if not word.plays(SenseKind.NAME))
        return any(it is not None and it.unit is Unit.NUMBER and it.value not in values for it in numbers)


def _counts_rooms(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for a number of rooms, behind rooms: 阳台和玄关两个地方."""
    after = words[index + 1].text if index + 1 < len(words) else ""
    return after in _PLACES or words[index].text.endswith(("间", "处"))


def _take_others(query: QueryIR, before: QueryIR) -> QueryIR:
    """Return 其他都关掉 behind another command: all of its type, but what that one was about."""
    spared = (before.name_hint,) if before.name_hint else before.scope_include
    values = {"type_hint": query.type_hint or before.type_hint, "quantifier": Quantifier.EXCEPT if spared else None}
    return query.model_copy(update={**values, "scope_exclude": spared})


def _list_names(target: Target) -> str:
    """Return the words of a target, and all names of the devices that it names: a nickname does not say what it is."""
    devices = target.name.devices if target.name is not None else ()
    named = (name for device in devices for name in (device.name, *device.aliases))
    return " ".join((*(word.text for word in target.words), *map(fold_name, named)))


def _imply_type(target: Target) -> tuple[str, ...]:
    """Return the types of a room's devices, or of a name that has or ends in a word for a type: 小月亮的灯, 床头灯.

    A type alone is left out.
    """
    if target.owned:
        return target.owned
    if target.types:
        return target.types if target.rooms else ()
    last = target.words[-1]
    if last.plays(SenseKind.TYPE):
        return ()
    ends = [word for word in split_words(_fold(last.text[1:]), None) if word.plays(SenseKind.TYPE)]
    is_end = bool(ends) and ends[-1].end == len(last.text) - 1
    return tuple(ends[-1].get_value(SenseKind.TYPE).split()) if is_end else ()


def _is_step(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for 一些 of 调暗一些, not of 一些灯."""
    after = words[index + 1 : index + 2]
    heads = (SenseKind.TYPE, SenseKind.KIND, SenseKind.NAME, SenseKind.ROOM)
    return words[index].plays(SenseKind.STEP) and not (after and after[0].plays(*heads))


def _fold(text: str) -> FoldedText:
    return FoldedText(text, text, tuple(range(len(text))), tuple(range(1, len(text) + 1)))
