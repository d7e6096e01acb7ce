"""Text → terms, for Chinese and English in one text.

A Latin word gives its stem; a compound (camelCase, snake_case, kebab-case, letters beside digits) gives its parts and
the joined form, so that "GitCommit", "git_commit" and "git commit" meet. Han gives the words of jieba's search mode.
"""

import re
import unicodedata
from collections.abc import Iterator

import rjieba

from skillbus.embedder.domain.stemming import stem
from skillbus.embedder.domain.stopwords import CHINESE, ENGLISH

MAX_CHARS = 8192  # what follows in a longer text is not read; the longest field of a tool is a tenth of it
MAX_TERM_CHARS = 64  # longer "words" are base64, hashes and hostile input: cut, so that equal ones still meet

_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+(?:[_\-./'’][^\W_{_HAN}]+)*")
_HAN_START = re.compile(rf"[{_HAN}]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


def normalise(text: str) -> str:
    """NFKC of the first `MAX_CHARS` characters, again at most `MAX_CHARS` long (one character can become eighteen)."""
    return unicodedata.normalize("NFKC", text[:MAX_CHARS])[:MAX_CHARS]


def terms(text: str) -> Iterator[str]:
    """The terms of a text in reading order, with repetitions, stop words left out."""
    for match in _RUN.finditer(normalise(text)):
        run = match.group()
        yield from _han_terms(run) if _HAN_START.match(run) else _word_terms(run)


def _han_terms(run: str) -> Iterator[str]:
    return (word for word in rjieba.cut_for_search(run, hmm=False) if word not in CHINESE)


def _word_terms(run: str) -> Iterator[str]:
    parts = [part.lower()[:MAX_TERM_CHARS] for part in _PART.findall(run)]
    if len(parts) > 1:
        yield "".join(parts)[:MAX_TERM_CHARS]
    for part in parts:
        if part not in ENGLISH:
            yield stem(part)
