"""Text policy of the commands of a library, and of the sentences that are compared with them.

The vector of a command is the mean of its descriptions, each embedded alone: a text in two languages is far from
sentences in either. BM25 reads all descriptions, the meanings of their words, and, at half the weight, the ids split
into words. The meanings join what has no word in common: "louder" and 调高音量, 切歌 and "Skip to the next track".
docs/commands.md has the figures.
"""

import re
from collections.abc import Mapping
from typing import Final

from skillbus.queryir.writing import fold_name
from skillbus.relevance.household.meaning import Meaning, read_command_meaning, read_meaning

_MAX_CHARACTERS: Final = 8_000
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


def build_command_dense_texts(descriptions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts to embed, at least one; the command's vector is the mean of theirs."""
    return tuple(dict.fromkeys(fold_name(text) for text in descriptions.values()))


def build_command_lexical_text(descriptions: Mapping[str, str], capability: str, command: str) -> str:
    """Return the text for BM25, with its meaning twice: commands are short, and what they do is more than a word."""
    terms = describe_meaning(descriptions, capability, command).list_terms()
    return _join(*terms, *terms, *build_command_dense_texts(descriptions))


def build_command_aside_text(capability: str, command: str) -> str:
    """Return the text for BM25 that counts half: the ids, split into words."""
    return " ".join(part.lower() for part in _PART.findall(f"{capability} {command}"))


def describe_meaning(descriptions: Mapping[str, str], capability: str, command: str) -> Meaning:
    """Return what a command does, and what it is about."""
    return read_command_meaning(descriptions, build_command_aside_text(capability, command))


def build_phrase_text(phrase: str) -> str:
    """Return the text of a query to embed: simplified characters, lower case."""
    return fold_name(phrase)


def build_phrase_words(phrase: str) -> str:
    """Return the text of a query for BM25."""
    return _join(*read_meaning(phrase).list_terms(), fold_name(phrase))


def _join(*parts: str) -> str:
    return " ".join(parts)[:_MAX_CHARACTERS]
