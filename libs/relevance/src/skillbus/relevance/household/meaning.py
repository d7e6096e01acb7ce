"""Meaning of a spoken command or of a command's description: what it does, and what it is about.

Four sentences of grammar decide what a text does; docs/commands.md explains them.

1. A question, and a text whose first action is to read something, reads. It does nothing else. 多少 and 几度 ask only
   where there is no action: 调高几度 does not.
2. Otherwise the first action counts, with those that "or" and "and" join to it. "Set" gives way to any other action:
   in "make it louder" and "换下一首" the other word says what is wanted.
3. With a share ("一半", "三成", "30 percent") a thing is not opened or switched on, but set.
4. To open a lock is to unlock it, to close one is to lock it. 切换 alone toggles; with a topic (切换频道) it sets.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillbus.queryir.writing import fold_name
from skillbus.relevance.household.lexicon import WordMatch, load_household

READ: Final = "read"
_SET: Final = "set"
_TOGGLE: Final = "toggle"
_OF_SHARES: Final = frozenset({"open", "close", "on", "off", "set", "up", "down"})
_MAX_CHARACTERS: Final = 1_000
_CACHED: Final = 8_192
_SHARE: Final = re.compile(r"\d\s*[%％]|百分之|百分比|[一二三四五六七八九两几]成|一半|\bpercent\b|\bhalf\b|\bhalfway\b")
_ALTERNATIVE: Final = re.compile(r"(.)[不没]\1")
"""亮不亮, 有没有: a question."""
_POLITE: Final = re.compile(r"能不能|可不可以|可以|能否|可否|麻烦|请|帮")
_ASKS_POLITELY: Final = frozenset("吗么嘛")

_OPPOSITES: Final = tuple(
    frozenset(pair.split())
    for pair in (
        *("on off", "open close", "on close", "open off", "up down", "up close", "down open"),
        *("start stop", "start pause", "start off", "on stop", "resume pause", "resume stop"),
        *("lock unlock", "lock open", "unlock close", "mute unmute", "next previous", "forward backward"),
        *("add delete", "set delete", "arm disarm", "arm off", "disarm on"),
    )
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """Actions and topics of a text, by their names in the lexicon."""

    actions: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()

    def contradicts(self, other: "Meaning") -> bool:
        """Return True if one does the opposite of the other, or only one of them reads.

        False if they have an action in common, or one has none.
        """
        if not self.actions or not other.actions or self.actions & other.actions:
            return False
        if READ in self.actions or READ in other.actions:
            return True
        return any({mine, theirs} in _OPPOSITES for mine in self.actions for theirs in other.actions)

    def is_fulfilled_by(self, other: "Meaning") -> bool:
        """Return True if the other does all that this one says: one of its actions, and to all of its topics."""
        return bool(self.actions & other.actions) and self.topics <= other.topics

    def is_elsewhere(self, other: "Meaning") -> bool:
        """Return True if both have topics, and none in common."""
        return bool(self.topics) and bool(other.topics) and not self.topics & other.topics

    def list_terms(self) -> list[str]:
        """Return a term of each action and topic for the lexical side; no word of a language is equal to one."""
        named = [f"action{name}" for name in self.actions] + [f"topic{name}" for name in self.topics]
        return sorted(name.replace("_", "") for name in named)


def read_meaning(text: str) -> Meaning:
    """Return the meaning of a spoken command or of a description."""
    return _read(text[:_MAX_CHARACTERS])


def read_command_meaning(descriptions: Mapping[str, str], words: str) -> Meaning:
    """Return the meaning of a command: its descriptions in all languages, and the topics of the words of its ids."""
    read = [read_meaning(text) for text in descriptions.values()]
    named = read_meaning(words)
    return Meaning(_unite(one.actions for one in read), _unite(one.topics for one in (*read, named)))


@lru_cache(_CACHED)
def _read(given: str) -> Meaning:
    text, lexicon = fold_name(given), load_household()
    topics = _unite(
        found.concepts for found in (*lexicon.topics.find_chinese(text), *lexicon.topics.find_english(text))
    )
    chinese = list(lexicon.actions.find_chinese(text))
    english = list(lexicon.actions.find_english(text))
    actions = _select_actions(chinese) | _select_actions(english)
    asks = _asks(text, lexicon.questions) or (actions <= {_SET} and _asks(text, lexicon.amounts))
    if READ in actions or asks:
        return Meaning(frozenset({READ}), topics)
    if _TOGGLE in actions:
        actions = frozenset({_SET if _SET in actions and topics else _TOGGLE})
    if actions and actions <= _OF_SHARES and _SHARE.search(text):
        actions = frozenset({_SET})
    if "lock" in topics and actions and actions <= {"open", "on"}:
        actions = frozenset({"unlock"})
    if "lock" in topics and actions and actions <= {"close", "off"}:
        actions = frozenset({"lock"})
    return Meaning(actions, topics)


def _select_actions(found: Sequence[WordMatch]) -> frozenset[str]:
    """Return the first action with those joined to it. A mere "set" gives way to a later action."""
    said = [one for one in found if one.concepts]
    if said and READ in said[0].concepts:
        return frozenset({READ})
    said = [one for one in said if READ not in one.concepts]
    doing = [one for one in said if one.concepts != {_SET}] or said
    return _unite(one.concepts for place, one in enumerate(doing) if place == 0 or one.joined)


def _asks(text: str, questions: Sequence[str]) -> bool:
    """Return whether a Chinese text is a question. "能开灯吗" and "请…好吗" are requests."""
    if _POLITE.search(text):
        text = _POLITE.sub("", text).rstrip("吗么嘛?？。")
    return any(word in text for word in questions) or bool(_ALTERNATIVE.search(text))


def _unite(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)
