"""Lexicon of household words: the words of each action and topic in Chinese and English, and how a text is searched."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"[a-z0-9]+(?:[.'][a-z0-9]+)*|,")
_ENDINGS: Final = ("s", "es", "d", "ed", "ing")
_FIRST: Final = "^"
_JOINING: Final = frozenset("或和、/及")
_COURTESY: Final = frozenset({"please", "hey", "ok", "and", "or", "then", "can", "could", "would", "will", "you"})
"""Words before the first word proper of a sentence."""


class WordMatch(NamedTuple):
    """Word of the lexicon in a text."""

    concepts: frozenset[str]
    """Empty for a word that only looks like one."""
    start: int
    """Position: of a character in Chinese, of a word in English."""
    joined: bool
    """True if "or" or "and" stands directly before it."""


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Words of several concepts, for the longest match at each position of a text."""

    chinese: Mapping[str, frozenset[str]]
    english: Mapping[tuple[str, ...], frozenset[str]]
    first: Mapping[tuple[str, ...], frozenset[str]]
    """English phrases that count only at the beginning of a sentence."""
    longest_chinese: int
    """Characters of the longest Chinese word."""
    longest_english: int
    """Words of the longest English phrase."""

    def find_chinese(self, text: str) -> Iterator[WordMatch]:
        position = 0
        while position < len(text):
            for length in range(min(self.longest_chinese, len(text) - position), 0, -1):
                concepts = self.chinese.get(text[position : position + length])
                if concepts is not None:
                    yield WordMatch(concepts, position, text[position - 1 : position] in _JOINING)
                    position += length
                    break
            else:
                position += 1

    def find_english(self, text: str) -> Iterator[WordMatch]:
        words = _TOKEN.findall(text)
        position = 0
        begins = True
        while position < len(words):
            found = self._match(words, position, begins=begins)
            begins = words[position] == "," or (begins and words[position] in _COURTESY)
            if found is None:
                position += 1
                continue
            concepts, length = found
            yield WordMatch(concepts, position, position > 0 and words[position - 1] in ("or", "and"))
            position += length

    def _match(self, words: Sequence[str], position: int, *, begins: bool) -> tuple[frozenset[str], int] | None:
        for length in range(min(self.longest_english, len(words) - position), 0, -1):
            phrase = tuple(words[position : position + length])
            concepts = self.first.get(phrase) if begins else None
            if (concepts := concepts or self.english.get(phrase)) is not None:
                return concepts, length
        return None


@dataclass(frozen=True, slots=True)
class HouseholdLexicon:
    """Everything that is known of household words."""

    actions: WordIndex
    topics: WordIndex
    questions: tuple[str, ...]
    """Chinese words of questions."""
    amounts: tuple[str, ...]
    """Chinese words that ask for an amount where the sentence has no action."""


@cache
def load_household() -> HouseholdLexicon:
    """Load the lexicon of this package once, in a few milliseconds."""
    source = files("skillbus.relevance.household").joinpath("household.toml").read_text("utf-8")
    data = tomllib.loads(source)
    return HouseholdLexicon(
        actions=_index_words(data["actions"], data["neutral"]),
        topics=_index_words(data["topics"]),
        questions=tuple(data["questions"]["zh"]),
        amounts=tuple(data["questions"]["amounts"]),
    )


def _index_words(
    concepts: Mapping[str, Mapping[str, Sequence[str]]], neutral: Mapping[str, Sequence[str]] | None = None
) -> WordIndex:
    without_concept = neutral or {"zh": (), "en": ()}
    chinese: dict[str, frozenset[str]] = {word: frozenset() for word in without_concept["zh"]}
    english: dict[tuple[str, ...], frozenset[str]] = {tuple(it.split()): frozenset() for it in without_concept["en"]}
    first: dict[tuple[str, ...], frozenset[str]] = {}
    for concept, words in concepts.items():
        for word in words["zh"]:
            chinese[word] = chinese.get(word, frozenset()) | {concept}
        for phrase in words["en"]:
            known = first if phrase.startswith(_FIRST) else english
            for form in _list_forms(phrase.removeprefix(_FIRST)):
                known[form] = known.get(form, frozenset()) | {concept}
    return WordIndex(chinese, english, first, max(map(len, chinese)), max(map(len, (*english, *first))))


def _list_forms(phrase: str) -> Iterator[tuple[str, ...]]:
    """Yield a phrase as words, with each ending that its last word may have."""
    *before, last = phrase.split()
    forms = [last, *(last + ending for ending in _ENDINGS)]
    if last.endswith("e"):
        forms.append(last[:-1] + "ing")
    for form in forms:
        yield (*before, form)
