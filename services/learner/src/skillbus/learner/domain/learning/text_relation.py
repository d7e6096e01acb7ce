"""Relation of two texts: the same, an amended form of each other, or different.

Similarity shows that two texts are about the same thing, never that they say the same: an amended rule differs from the
old one in a number or a `not`. So only texts that are equal but for spelling of spaces, case and prose punctuation
count as the same.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rapidfuzz import fuzz

_AMENDED_RATIO: Final = 60.0
"""Least similarity of two forms of one text, of 100: the share of characters in their longest common subsequence.
Unrelated articles of the same law reach 40."""
_COMPARED_CHARACTERS: Final = 4_000
"""Longest beginning of a text that is compared character by character."""
_SHOWN: Final = 6
"""Most differences that a relation lists."""

_PROSE: Final = re.compile(
    r"(?<!\d)[.,]|[.,](?!\d)|!(?!=)|[\s;?\"'()\[\]{}«»„“”‘’、。，；：？！（）【】《》〈〉「」『』·…—–]|(?<!\d):|:(?!\d)|`"
)
_NUMBER: Final = re.compile(
    r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*\s?(?:%|[a-zµ°]{1,4}\b)?|[一二三四五六七八九十百千万亿两]{2,}|[一二三四五六七八九十两](?=[个条次年月日天人元倍成份])"
)
_NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|without|cannot|except|unless|forbidden|prohibited|disabled?|denied|optional)\b|\b\w+n['’]t\b"
    r"|不|没有|未|无|非|禁止|除外|禁用|可选"
)
_NAME: Final = re.compile(
    r"(?<![a-z0-9])(?=[0-9]*+[a-z])[a-z0-9]++(?:[-_./:][a-z0-9{}*]++)+|/[a-z0-9{}*_./-]+", re.IGNORECASE | re.ASCII
)
"""Takes time linear in the length of the text: a word is tried from its start only."""


class TextRelation(Enum):
    """Relation of a new text to a known one."""

    SAME = "same"
    AMENDED = "amended"
    """Two forms of one text that differ in what they say."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class TextComparison:
    """Result of comparing two texts."""

    relation: TextRelation
    differences: tuple[str, ...] = ()
    """Numbers, negations and names that only one of the texts has, as `-old` and `+new`."""


def compare_texts(known: str, new: str) -> TextComparison:
    """Return the relation of two texts, with the differences of an amended one."""
    if normalize_statement(known) == normalize_statement(new):
        return TextComparison(TextRelation.SAME)
    ratio = fuzz.ratio(_fold(known)[:_COMPARED_CHARACTERS], _fold(new)[:_COMPARED_CHARACTERS])
    if ratio < _AMENDED_RATIO:
        return TextComparison(TextRelation.DIFFERENT)
    return TextComparison(TextRelation.AMENDED, _list_differences(known, new))


def normalize_statement(text: str) -> str:
    """Return the text in NFKC without case, spaces and prose punctuation. Operators, signs and decimals stay."""
    return _PROSE.sub("", _fold(text))


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _list_differences(known: str, new: str) -> tuple[str, ...]:
    before, after = _collect_marks(known), _collect_marks(new)
    removed = [f"-{mark}" for mark in (before - after)]
    added = [f"+{mark}" for mark in (after - before)]
    return tuple((removed + added)[:_SHOWN])


def _collect_marks(text: str) -> Counter[str]:
    """Return the parts of a text that decide what it says: numbers with units, negations, names."""
    folded = _fold(text)
    return Counter(
        mark.strip() for pattern in (_NUMBER, _NEGATION, _NAME) for mark in pattern.findall(folded) if mark.strip()
    )
