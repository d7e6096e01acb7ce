"""Cuts the words of a sentence into its commands: one list of words for each.

Punctuation and 然后 separate clauses. A clause without an action is the topic of the next one, an exclusion of its
command, or a reason, which is dropped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Final

from skillbus.queryir.chinese.families import GENERIC_VERBS
from skillbus.queryir.chinese.intents import CommandSigns
from skillbus.queryir.chinese.lexicon import Sense, SenseKind
from skillbus.queryir.chinese.roles import (
    HEADS,
    find_acting_verbs,
    find_excess,
    is_particle,
    is_request_step,
    is_verb,
    settle_names,
)
from skillbus.queryir.chinese.segmentation import ChineseWord

_MOST_CLAUSES: Final = 40
"""More clauses are no spoken command, and would take time."""
_OPEN_VERBS: Final = frozenset({"set", "query", "watch", "up", "down", "activate", "start"})
"""Verbs whose object another verb may follow in the same command."""
_VALUES: Final = (SenseKind.QUANTITY, SenseKind.EXTREME, SenseKind.COLOUR, SenseKind.MODE)


@dataclass
class CommandWords:
    """Words of one command."""

    words: list[ChineseWord] = field(default_factory=list)
    inherits: bool = False
    """The command says no device after another one: it means the same devices."""


class _Piece:
    """Clause between two pauses."""

    def __init__(self, words: Sequence[ChineseWord]) -> None:
        self.words = settle_names(words)
        self.is_alone = False
        """True if no clause of the sentence asks for something by itself."""

    def plays(self, *kinds: SenseKind) -> bool:
        return any(word.plays(*kinds) for word in self.words)

    @cached_property
    def has_head(self) -> bool:
        return self.plays(*HEADS) or any(not word.senses for word in self.words)

    @cached_property
    def has_target(self) -> bool:
        return self.plays(*HEADS, SenseKind.ROOM)

    @cached_property
    def means_rest(self) -> bool:
        """True for 其他的都关, 全关掉 and 都关掉: all but what was left out before."""
        return self.plays(SenseKind.OTHER, SenseKind.ALL) or (
            self.plays(SenseKind.DISTRIBUTIVE) and not self.has_target
        )

    @cached_property
    def asks_degrees(self) -> bool:
        return any(one in word.text for word in self.words if word.plays(SenseKind.QUESTION) for one in "度热冷湿潮")

    @cached_property
    def is_remark(self) -> bool:
        """A greeting, or a remark about something else: 外面下雨了."""
        if self.plays(SenseKind.GREETING):
            return True
        return not self.plays(*HEADS) and (self.plays(SenseKind.MEASURE) or any(not word.senses for word in self.words))

    @cached_property
    def tells(self) -> bool:
        """True for a verb with an unknown object that has happened: 停电了, 要洗澡了."""
        if self.has_target or not self.words or self.words[-1].text != "了" or self.plays(SenseKind.OBJECT):
            return False
        return any(is_verb(word) and not after.senses for word, after in pairwise(self.words))

    @cached_property
    def hesitates(self) -> bool:
        """那个 alone, before what is meant."""
        return all(word.plays(SenseKind.DEMONSTRATIVE, SenseKind.FILLER) for word in self.words)

    @property
    def acts(self) -> bool:
        """True for a clause that asks for something. 别开那么亮 does where no other clause does."""
        return self.asks or (self.is_alone and find_excess(self.words) is not None)

    @cached_property
    def asks(self) -> bool:
        words = self.words
        if self.plays(SenseKind.RHETORIC):
            return False
        verbs = [word for word in map(words.__getitem__, find_acting_verbs(words)) if not is_particle(word)]
        values = [word.get_value(SenseKind.VERB) for word in verbs]
        weak = {"maybe_dock"} if self.has_target else {"maybe_dock", "faster", "watch"}
        if any(value not in weak for value in values):
            return True
        if self.plays(SenseKind.QUESTION, SenseKind.SOFT_QUESTION):
            return self.has_target or self.plays(SenseKind.MEASURE, SenseKind.PROPERTY, *_VALUES) or self.asks_degrees
        if self.plays(SenseKind.EXTREME):
            return True
        steps = (is_request_step(words, index) for index, word in enumerate(words) if word.plays(SenseKind.ADJECTIVE))
        particles = any(is_verb(word) and is_particle(word) for word in words)
        return any(steps) or (self.plays(*_VALUES) and (particles or self.plays(SenseKind.PROPERTY)))

    @cached_property
    def excludes(self) -> bool:
        """A clause that only says what is left out."""
        if self.plays(SenseKind.KEEP):
            return not self.plays(SenseKind.OTHER)
        if self.plays(SenseKind.NOT, SenseKind.LEAVE):
            return not self.acts
        return self.plays(SenseKind.EXCEPT_OPEN, SenseKind.EXCEPT_CLOSE) and not self.acts


def split_commands(words: Sequence[ChineseWord]) -> list[CommandWords]:
    """Return the commands of a sentence, in its order."""
    runs = islice((run for run in _split_pauses(words) if run), _MOST_CLAUSES)
    pieces = [piece for run in runs for piece in map(_Piece, _split_run(run)) if piece.words]
    pieces = [piece for index, piece in enumerate(pieces) if not (piece.tells and _asks_later(pieces[index + 1 :]))]
    is_alone = not any(piece.asks for piece in pieces)
    for piece in pieces:
        piece.is_alone = is_alone
    if not any(piece.acts or piece.excludes for piece in pieces):
        return [CommandWords([word for piece in pieces for word in (*piece.words, _PAUSE)])] if pieces else []
    return _join_pieces(pieces)


def _asks_later(pieces: Sequence[_Piece]) -> bool:
    """Return True if a later clause asks for something and says of what."""
    return any(piece.asks and piece.has_target for piece in pieces)


def _join_pieces(pieces: Sequence[_Piece]) -> list[CommandWords]:
    last_action = (
        max(index for index, piece in enumerate(pieces) if piece.acts and not piece.excludes)
        if any(piece.acts and not piece.excludes for piece in pieces)
        else -1
    )
    commands: list[CommandWords] = []
    pending: list[_Piece] = []
    for index, piece in enumerate(pieces):
        more = index < last_action
        if piece.excludes and more and (topic := _take_ended(piece, pieces[index + 1])) is not None:
            pending.append(topic)
        elif piece.excludes and more and _ends_work(piece, pieces[index + 1]):
            commands.append(CommandWords([*piece.words, _PAUSE]))
        elif piece.excludes:
            _join_exclusion(piece, pieces[index + 1 :], commands, pending if more else None)
        elif piece.acts:
            commands.append(_join_action(piece, pending, bool(commands)))
            pending = []
        elif piece.has_target and not piece.is_remark:
            if more:
                pending.append(piece)
            elif commands and not _is_complaint(piece):
                commands[-1].words += [_AND, *piece.words, _PAUSE]
    return commands


def _take_ended(piece: _Piece, after: _Piece) -> _Piece | None:
    """Return the device of 扫地机别扫了 and 床头灯先别关, the topic of what comes next; None for what leaves it out.

    What comes next has no device of its own: 客厅灯别关了，其他的都关 leaves 客厅灯 out.
    """
    words = piece.words
    if after.has_target or after.means_rest:
        return None
    ends = any(word.text in ("了", "啦", "了啦") or word.plays(SenseKind.DEGREE) for word in words)
    at = next((index for index, word in enumerate(words) if word.plays(SenseKind.NOT)), 0)
    spared = any(word.list_values(SenseKind.VERB) & _SPARING for word in words[at:])
    if spared:
        again = {value for word in after.words for value in word.list_values(SenseKind.VERB)} & _SPARING
        ends = after.asks and not again and not after.plays(SenseKind.DISTRIBUTIVE)
    if not ends or not at or piece.plays(SenseKind.KEEP, SenseKind.LEAVE) or not piece.has_target:
        return None
    return _Piece(words[:at])


def _ends_work(piece: _Piece, after: _Piece) -> bool:
    """Return True for 扫地机别扫了 before a command about another device: 扫地机别扫了，打开客厅灯."""
    if piece.plays(SenseKind.KEEP, SenseKind.LEAVE) or after.means_rest or not (after.acts and after.has_target):
        return False
    return CommandSigns(piece.words).ended is not None


def _is_complaint(piece: _Piece) -> bool:
    return piece.plays(SenseKind.ADJECTIVE, SenseKind.DEGREE) or not piece.plays(*HEADS, SenseKind.ROOM)


def _join_exclusion(
    piece: _Piece, later: Sequence[_Piece], commands: list[CommandWords], pending: list[_Piece] | None
) -> None:
    negative = piece.plays(SenseKind.NOT, SenseKind.LEAVE) and not piece.plays(SenseKind.KEEP)
    if pending is not None:
        if not negative or any(one.means_rest for one in later):
            pending.append(piece)
    elif not commands:
        commands.append(CommandWords([*piece.words, _PAUSE]))
    elif not negative or _is_exception(piece, commands[-1].words):
        commands[-1].words += [*piece.words, _PAUSE]


def _is_exception(piece: _Piece, command: Sequence[ChineseWord]) -> bool:
    """Return True for 卧室的不用关 after a command that turns off, or one about all devices."""
    if any(word.plays(SenseKind.ALL, SenseKind.DISTRIBUTIVE, SenseKind.OTHER) for word in command):
        return True
    verbs = {value for word in command for value in word.list_values(SenseKind.VERB)}
    return any(verbs & word.list_values(SenseKind.VERB) for word in piece.words)


def _join_action(piece: _Piece, pending: Sequence[_Piece], follows: bool) -> CommandWords:
    words: list[ChineseWord] = []
    excluding = any(one.excludes or one.plays(SenseKind.EXCEPT_OPEN, SenseKind.EXCEPT_CLOSE) for one in pending)
    for one in pending:
        if excluding and one.hesitates:
            continue
        if excluding:
            words += [*one.words, _PAUSE]
        elif not piece.has_head:
            words += [*_drop_complaints(one.words), _PAUSE]
        elif not piece.plays(SenseKind.ROOM, SenseKind.NAME):
            words += [word for word in one.words if word.plays(SenseKind.ROOM) and word.name is None]
    alone = not words and not piece.has_head and not piece.plays(SenseKind.ROOM, SenseKind.MEASURE)
    return CommandWords([*words, *piece.words, _PAUSE], inherits=follows and alone)


def _drop_complaints(words: Sequence[ChineseWord]) -> list[ChineseWord]:
    """Return the words of a topic: without 太亮了 or 太小声了, and without unknown words."""
    kept: list[ChineseWord] = []
    complains = False
    for word in words:
        complaint = word.plays(SenseKind.ADJECTIVE, SenseKind.DEGREE) or (complains and is_verb(word))
        complains = word.plays(SenseKind.DEGREE)
        if word.senses and not complaint:
            kept.append(word)
    return kept


_SPARING: Final = frozenset({"off", "close", "lock"})
"""Verbs that, negated, leave a device as it is: 别关了."""
_PAUSE: Final = ChineseWord(0, 0, ",", (Sense(SenseKind.PAUSE),))
_AND: Final = ChineseWord(0, 0, "", (Sense(SenseKind.AND),))


def _split_pauses(words: Sequence[ChineseWord]) -> Iterator[list[ChineseWord]]:
    run: list[ChineseWord] = []
    for word in words:
        if word.plays(SenseKind.PAUSE) and not word.plays(SenseKind.NAME):
            yield run
            run = []
        else:
            run.append(word)
    yield run


def _split_run(run: Sequence[ChineseWord]) -> Iterator[list[ChineseWord]]:
    """Split a clause before 然后, before a second 把, and between commands that follow each other without a pause."""
    words = settle_names(run)
    acting = set(find_acting_verbs(words))
    is_head = [word.plays(*HEADS) or not word.senses for word in words]
    verb_after = _count_from_end([index in acting for index in range(len(words))])
    head_after = _count_from_end(is_head)
    start = 0
    state = _RunState()
    for index, word in enumerate(words):
        if state.verb and state.ends_before(words, index, index in acting, verb_after[index], head_after[index]):
            yield words[start:index]
            start = index
            state = _RunState()
        if index in acting and not is_particle(word):
            state.see_verb(word)
        elif is_head[index] or word.plays(SenseKind.ROOM):
            state.see_target()
    yield words[start:]


def _count_from_end(flags: Sequence[bool]) -> list[int]:
    counts = [0] * (len(flags) + 1)
    for index in reversed(range(len(flags))):
        counts[index] = counts[index + 1] + flags[index]
    return counts


class _RunState:
    """Order of verbs and targets since the last command began."""

    def __init__(self) -> None:
        self.verb = ""
        self.target_before = False
        self.target_after = False

    def see_verb(self, word: ChineseWord) -> None:
        value = word.get_value(SenseKind.VERB)
        if not self.verb or self.verb in GENERIC_VERBS:
            self.verb = value

    def see_target(self) -> None:
        if self.verb:
            self.target_after = True
        else:
            self.target_before = True

    def ends_before(self, words: Sequence[ChineseWord], index: int, acts: bool, verbs: int, heads: int) -> bool:
        """Return True if a new command begins at a word. `verbs` and `heads` are those from the word to the end."""
        word = words[index]
        complete = self.target_before or self.target_after
        if word.plays(SenseKind.THEN):
            return verbs > 0
        if word.plays(SenseKind.AGAIN) or (word.plays(SenseKind.OBJECT) and word.text in ("把", "将")):
            return complete and verbs > 0
        if acts and self.target_after and self.verb not in _OPEN_VERBS and not is_particle(word):
            value_follows = any(one.plays(*_VALUES) for one in words[index + 1 : index + 3])
            return heads > 0 or value_follows or word.get_value(SenseKind.VERB) == "play"
        begins = word.plays(*HEADS, SenseKind.ROOM) and not is_verb(word)
        between = begins and self.target_before and not self.target_after and self.verb not in _OPEN_VERBS
        return between and verbs > 0 and not words[index - 1].plays(SenseKind.AND, SenseKind.POSSESSIVE)
