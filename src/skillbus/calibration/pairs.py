"""Pairs of a query and a tool, with the evidence for each: what the fit and its measures look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from skillbus.calibration.bm25 import Bm25, Floats, Ints
from skillbus.calibration.judged import Bools, Judged
from skillbus.calibration.vectors import Vectors
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.score import compute_rarest_idf

SEED: Final = 7
CANDIDATES: Final = 100  # of each side; more than the retriever's default
RANDOM_TOOLS: Final = 30  # drawn for each query
_CHUNK: Final = 256  # queries whose cosines with all tools are in memory at a time


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A row a pair, queries in order."""

    query: Ints
    tool: Ints
    cosine: Floats
    words: Floats
    """BM25 in words that only one tool has."""
    relevant: Bools

    @property
    def start(self) -> Ints:
        """The first row of each query that has any."""
        if not len(self.query):
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(np.diff(self.query, prepend=self.query[0] - 1))

    def where(self, rows: Bools) -> "Pairs":
        """Some of them."""
        return Pairs(self.query[rows], self.tool[rows], self.cosine[rows], self.words[rows], self.relevant[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The pairs of some judged tools and queries, by how they were come by."""

    candidates: Pairs
    """What a search would look at: the nearest by cosine and the best by BM25; `words` is 0 for those that BM25 does
    not have among its best. Every query has some."""
    right: Pairs
    """Queries for one tool, with the tools that fit."""
    random: Pairs
    """The same queries, with tools drawn at random of those that do not fit."""


@dataclass(frozen=True, slots=True, eq=False)
class _Evidence:
    """Of one query, for every tool."""

    query: int
    cosine: Floats
    words: Floats
    relevant: frozenset[int]

    def pairs(self, tools: Ints, words: Floats | None = None) -> Pairs:
        return Pairs(
            query=np.full(len(tools), self.query, dtype=np.int64),
            tool=tools,
            cosine=self.cosine[tools],
            words=self.words[tools] if words is None else words,
            relevant=np.array([tool in self.relevant for tool in tools.tolist()], dtype=np.bool_),
        )

    def candidates(self) -> Pairs:
        nearest = np.argsort(-self.cosine, kind="stable")[:CANDIDATES]
        best = np.argsort(-self.words, kind="stable")[:CANDIDATES]
        found = np.union1d(nearest, best[self.words[best] > 0])
        return self.pairs(found, np.where(np.isin(found, best), self.words[found], 0.0))


def survey(judged: Judged, vectors: Vectors, encoder: LexicalEncoder) -> Survey:
    """All pairs that matter; of `SEED`, always the same. `encoder` reads the requests, `encoder_of_search` as a search
    does."""
    random, single = np.random.default_rng(SEED), judged.for_one_tool
    candidates, right, drawn = [], [], []
    for evidence in _evidence(judged, vectors, encoder):
        candidates.append(evidence.candidates())
        if single[evidence.query]:
            tools = random.integers(len(judged.tools), size=RANDOM_TOOLS)
            right.append(evidence.pairs(np.array(sorted(evidence.relevant), dtype=np.int64)))
            drawn.append(evidence.pairs(tools[[tool not in evidence.relevant for tool in tools.tolist()]]))
    return Survey(_joined(candidates), _joined(right), _joined(drawn))


def _evidence(judged: Judged, vectors: Vectors, encoder: LexicalEncoder) -> Iterator[_Evidence]:
    index = Bm25([tool.lexical_text for tool in judged.tools], [tool.aside_text for tool in judged.tools], encoder)
    rarest = compute_rarest_idf(len(judged.tools))
    for begin in range(0, len(judged.queries), _CHUNK):
        cosines = vectors.cosines(begin, min(begin + _CHUNK, len(judged.queries)))
        for row, cosine in enumerate(cosines, start=begin):
            words = index.scores(judged.queries[row].query) / rarest
            yield _Evidence(row, cosine, words, judged.relevant[row])


def _joined(parts: Sequence[Pairs]) -> Pairs:
    nothing = np.zeros(0)
    none = Pairs(nothing.astype(np.int64), nothing.astype(np.int64), nothing, nothing, nothing.astype(np.bool_))
    all_of = [none, *parts]
    return Pairs(
        query=np.concatenate([part.query for part in all_of]),
        tool=np.concatenate([part.tool for part in all_of]),
        cosine=np.concatenate([part.cosine for part in all_of]),
        words=np.concatenate([part.words for part in all_of]),
        relevant=np.concatenate([part.relevant for part in all_of]),
    )
