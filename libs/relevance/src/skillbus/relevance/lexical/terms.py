"""Splits a text into terms; the text may mix Chinese and English.

A Latin word becomes its stem. A compound (camelCase, snake_case, kebab-case, letters next to digits) becomes its parts
and the joined form, so that "GitCommit", "git_commit" and "git commit" match; "URLs" is one word, and matches "url".
Han text becomes the words of jieba's search mode.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from Stemmer import Stemmer  # type: ignore[import-not-found]  # the package carries no types

from skillbus.common.characters import HAN, HAN_CHARACTER
from skillbus.relevance.text_normalization import normalise_text

MAX_CHARS = 32_768  # the rest of a longer text is ignored; the embedder accepts no longer texts
MAX_TERM_CHARS = 64  # longer "words" are base64, hashes and hostile input: cut, so that equal ones still match

_RUN = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+(?:[_\-./'’][^\W_{HAN}]+)*")
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_STEMMER = Stemmer("english")  # threads may share it: it holds the GIL while it works

# Stop words carry no information about which tool is meant. The English ones are Lucene's default list (33 words,
# org.apache.lucene.analysis.en.EnglishAnalyzer) plus the pronouns, auxiliaries and request words with which people
# address an assistant ("could you please help me"). IDF alone does not reduce the weight of the latter: they are
# frequent in queries and rare in the descriptions that IDF is computed on. The Chinese ones are of the same kinds.
_LUCENE = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_ADDRESS = """
i me my we our us you your he she his her its from can could should would please what which how do does did has have had
been were am about some any also so want need help give let just all
"""
_APOSTROPHE_ENDS = "s t m re ve ll d"  # of "it's", "don't", "I'm", "you're", "I've", "we'll", "I'd"

_PARTICLES = """
的 了 和 是 在 有 就 也 都 而 及 与 着 或 把 被 给 吗 呢 吧 啊 为 对 上 从 到 以 并 不 没有
一个 这 那 这个 那个 一下
"""
_REQUEST = "我 我们 你 您 他 她 它 请 请问 帮 帮我 能 可以 什么 怎么 如何 想 要 想要 需要"

ENGLISH = frozenset(f"{_LUCENE} {_ADDRESS} {_APOSTROPHE_ENDS}".split())
CHINESE = frozenset(f"{_PARTICLES} {_REQUEST}".split())


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
            import rjieba  # noqa: PLC0415 (0.12 s and 33 MB, which texts without Han characters do not need)

            cut = rjieba.cut_for_search(run, hmm=False)
            known = CHINESE.union(cut)
            words += (word for word in cut if word not in CHINESE)
            pairs += (pair for pair in map("".join, pairwise(run)) if pair not in known)
        else:
            parts = [part.lower()[:MAX_TERM_CHARS] for part in _PART.findall(run)]
            if len(parts) > 1:
                words.append(stem_word("".join(parts)[:MAX_TERM_CHARS]))
            words += (stem_word(part) for part in parts if part not in ENGLISH)
    return Terms(words, pairs)


def stem_word(word: str) -> str:
    """Return the Snowball stem ("Porter2", M. F. Porter, 2001) of a lower-case English word, in about a microsecond.

    Most other words are returned unchanged.
    """
    stemmed: str = _STEMMER.stemWord(word)
    return stemmed
