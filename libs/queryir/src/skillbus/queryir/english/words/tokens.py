"""Words of an English sentence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillbus.queryir.english.lexicon.phrases import find_singular, read_words
from skillbus.queryir.writing import FoldedText

_TOKEN: Final = re.compile(
    r"(?P<number>(?:(?<![\w%])[-\u2212])?\d+(?:[.,:]\d+)*)"
    r"|(?P<han>[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+)"
    r"|(?P<word>[^\W\d_\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+"
    r"(?:['\u2019][^\W\d_]+)*)"
    r"|(?P<symbol>[%\u00b0&])"
    r"|(?P<comma>[,:\u3001\u2013\u2014]|-(?=\s))"
    r"|(?P<stop>[.;!?\u3002\n])"
)
_SYMBOLS: Final = {"%": "percent", "\u00b0": "degrees", "&": "and"}
_BEFORE_IS: Final = read_words(
    """
    what where how who when which why it that this there here he she everything everyone anyone
    someone
    """
)
_CONTRACTIONS: Final = {
    "whats": ("what", "is"),
    "wheres": ("where", "is"),
    "hows": ("how", "is"),
    "its": ("its",),
    "dont": ("do", "not"),
    "isnt": ("is", "not"),
    "arent": ("are", "not"),
    "let's": ("let", "us"),
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "gonna": ("going", "to"),
    "wanna": ("want", "to"),
    "y'all": ("you",),
}
_ENDINGS: Final = {"n't": "not", "'re": "are", "'ll": "will", "'ve": "have", "'d": "would", "'m": "am"}


@dataclass(frozen=True, slots=True)
class EnglishWord:
    """Word, number or unit of a sentence."""

    text: str
    """Lower case, without `'s`."""
    singular: str
    start: int
    """Position in the folded text."""
    end: int
    after_comma: bool = False
    after_stop: bool = False
    """True behind a full stop, semicolon, question mark or exclamation mark."""
    possessive: bool = False
    """True if `'s` was cut off: `Emma's`."""


def split_words(text: FoldedText) -> tuple[EnglishWord, ...]:
    """Split a sentence into words. Contractions become their words: `isn't` is `is`, `not`."""
    return tuple(_iterate_words(text.text))


@lru_cache(maxsize=50_000)
def split_name(name: str) -> tuple[str, ...]:
    """Split the folded name of a device or room into words as `split_words` splits a sentence."""
    return tuple(word.text for word in _iterate_words(name))


def _iterate_words(text: str) -> Iterator[EnglishWord]:
    comma = stop = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "comma":
            comma = True
        elif kind == "stop":
            stop = True
        else:
            words, possessive = _expand(match[0], kind)
            for word in words:
                singular = find_singular(word)
                yield EnglishWord(word, singular, match.start(), match.end(), comma, stop, possessive)
                comma = stop = False


def _expand(token: str, kind: str | None) -> tuple[tuple[str, ...], bool]:
    """Return the words of a token, and whether it was a possessive."""
    if kind != "word":
        return (_SYMBOLS.get(token, token.replace("\u2212", "-")),), False
    token = token.replace("\u2019", "'")
    if "'" not in token or token in _CONTRACTIONS:
        return _CONTRACTIONS.get(token, (token,)), False
    for ending, word in _ENDINGS.items():
        if token.endswith(ending) and len(token) > len(ending):
            return (token[: -len(ending)], word), False
    if token.endswith("'s"):
        base = token[:-2]
        return ((base, "is"), False) if base in _BEFORE_IS else ((base,), True)
    return (token.replace("'", ""),), False
