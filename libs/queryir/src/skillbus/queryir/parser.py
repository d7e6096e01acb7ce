"""Reads a sentence with the grammar of its language.

Each language is a package with one function, `read_sentence(text: FoldedText, home: Home | None) -> ParsedSentence`,
which stands in `_READERS`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from skillbus.queryir import chinese, english
from skillbus.queryir.home import Home
from skillbus.queryir.sentence import Language, ParsedSentence, SentenceReader
from skillbus.queryir.writing import FoldedText, fold_text, is_han

_READERS: Final[Mapping[Language, SentenceReader]] = {"zh": chinese.read_sentence, "en": english.read_sentence}

_CODE: Final = frozenset("<>{}=;`|\\")
"""Signs of code and markup, which nobody says."""
_DOUBTFUL: Final = 0.5
"""Highest confidence of a text with such signs."""


def parse_sentence(text: str, home: Home | None = None) -> ParsedSentence:
    """Read a sentence. A home gives its names, rooms and types; without one only common words are known."""
    folded = fold_text(text)
    language = detect_language(folded, home)
    parsed = _READERS[language](folded, home)
    if _CODE.isdisjoint(text):
        return parsed
    queries = (query.model_copy(update={"confidence": min(query.confidence, _DOUBTFUL)}) for query in parsed.queries)
    return replace(parsed, queries=tuple(queries))


def detect_language(text: FoldedText, home: Home | None = None) -> Language:
    """Return the language of a sentence: that of its words, where names of the home do not count.

    A word of Latin letters weighs as much as a Chinese character.
    """
    rest = text.text if home is None else _remove_names(text.text, home)
    for words in (rest, text.text):
        chinese = sum(map(is_han, words))
        latin = sum(any(letter.isalpha() and not is_han(letter) for letter in word) for word in _split_words(words))
        if chinese or latin:
            return "zh" if chinese >= latin else "en"
    return "en"


def _remove_names(text: str, home: Home) -> str:
    parts: list[str] = []
    position = 0
    while position < len(text):
        match = next(home.match_names(text, position), None)
        if match is None:
            parts.append(text[position])
            position += 1
        else:
            parts.append(" ")
            position = match.end
    return "".join(parts)


def _split_words(text: str) -> list[str]:
    return "".join(" " if is_han(one) or not one.isalnum() else one for one in text).split()
