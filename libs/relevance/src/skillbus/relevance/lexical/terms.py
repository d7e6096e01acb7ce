"""Text → terms, for Chinese and English in one text.

A Latin word gives its stem; a compound (camelCase, snake_case, kebab-case, letters beside digits) gives its parts and
the joined form, so that "GitCommit", "git_commit" and "git commit" meet; "URLs" is one word, and meets "url". Han gives
the words of jieba's search mode.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import rjieba
from Stemmer import Stemmer  # type: ignore[import-not-found]  # the package carries no types

from skillbus.relevance.lexical.stopwords import CHINESE, ENGLISH
from skillbus.relevance.text import normalise

MAX_CHARS = 32_768  # what follows in a longer text is not read; it is as long as the embedder takes one
MAX_TERM_CHARS = 64  # longer "words" are base64, hashes and hostile input: cut, so that equal ones still meet

_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+(?:[_\-./'’][^\W_{_HAN}]+)*")
_HAN_START = re.compile(rf"[{_HAN}]")
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Terms:
    """With repetitions, stop words left out."""

    words: list[str]
    pairs: list[str]
    """Each two neighbouring Han characters that are not among the words of their run: they find what was segmented
    otherwise in the query than in the document. A pair may be a word elsewhere, and is the same term then."""


def split_terms(text: str) -> Terms:
    words: list[str] = []
    pairs: list[str] = []
    for run in _RUN.findall(normalise(text, MAX_CHARS)):
        if _HAN_START.match(run):
            cut = rjieba.cut_for_search(run, hmm=False)
            known = CHINESE.union(cut)
            words += (word for word in cut if word not in CHINESE)
            pairs += (pair for pair in map("".join, pairwise(run)) if pair not in known)
        else:
            words += _word_terms(run)
    return Terms(words, pairs)


def _word_terms(run: str) -> Iterator[str]:
    parts = [part.lower()[:MAX_TERM_CHARS] for part in _PART.findall(run)]
    if len(parts) > 1:
        yield stem("".join(parts)[:MAX_TERM_CHARS])
    for part in parts:
        if part not in ENGLISH:
            yield stem(part)


def stem(word: str) -> str:
    """The stem of a lower-case English word; most others come back unchanged."""
    stemmed: str = _english().stemWord(word)
    return stemmed


@cache
def _english() -> Stemmer:
    # Shared by threads: it never lets go of the interpreter's lock while it works.
    return Stemmer("english")
