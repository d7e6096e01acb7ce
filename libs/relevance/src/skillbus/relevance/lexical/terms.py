"""Splits a text into terms; the text may mix Chinese and English.

A Latin word becomes its stem. A compound (camelCase, snake_case, kebab-case, letters beside digits) becomes its parts
and the joined form, so that "GitCommit", "git_commit" and "git commit" match; "URLs" is one word, and matches "url".
Han text becomes the words of jieba's search mode.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import rjieba
from Stemmer import Stemmer  # type: ignore[import-not-found]  # the package carries no types

from skillbus.common.characters import HAN, HAN_CHARACTER
from skillbus.relevance.lexical.stopwords import CHINESE, ENGLISH
from skillbus.relevance.normalization import normalise_text

MAX_CHARS = 32_768  # the rest of a longer text is ignored; the embedder accepts no longer texts
MAX_TERM_CHARS = 64  # longer "words" are base64, hashes and hostile input: cut, so that equal ones still match

_RUN = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+(?:[_\-./'’][^\W_{HAN}]+)*")
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a text with repetitions, without stop words."""

    words: list[str]
    pairs: list[str]
    """Pairs of neighbouring Han characters that are not among the words of their run. They match text that was
    segmented differently in the query and in the document. A pair may be a word elsewhere, and is the same term then.
    """


def split_terms(text: str) -> Terms:
    words: list[str] = []
    pairs: list[str] = []
    for run in _RUN.findall(normalise_text(text, MAX_CHARS)):
        if HAN_CHARACTER.match(run):
            cut = rjieba.cut_for_search(run, hmm=False)
            known = CHINESE.union(cut)
            words += (word for word in cut if word not in CHINESE)
            pairs += (pair for pair in map("".join, pairwise(run)) if pair not in known)
        else:
            words += _split_compound(run)
    return Terms(words, pairs)


def stem_word(word: str) -> str:
    """Return the Snowball stem ("Porter2", M. F. Porter, 2001) of a lower-case English word, in about a microsecond.

    Most other words are returned unchanged.
    """
    stemmed: str = _load_stemmer().stemWord(word)
    return stemmed


def _split_compound(run: str) -> Iterator[str]:
    parts = [part.lower()[:MAX_TERM_CHARS] for part in _PART.findall(run)]
    if len(parts) > 1:
        yield stem_word("".join(parts)[:MAX_TERM_CHARS])
    for part in parts:
        if part not in ENGLISH:
            yield stem_word(part)


@cache
def _load_stemmer() -> Stemmer:
    # Threads may share it: it holds the GIL while it works.
    return Stemmer("english")
