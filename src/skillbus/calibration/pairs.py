"""Pairs of a query and a tool with their evidence, the input of the fit and its measures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from skillbus.calibration.bm25 import Bm25, Floats, Ints
from skillbus.calibration.judged import Bools, Judged
from skillbus.calibration.vectors import JudgedVectors
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.score import compute_rarest_idf

SEED: Final = 7
CANDIDATES: Final = 100  # of each side; more than the retriever's default
RANDOM_TOOLS: Final = 30  # drawn for each query
_CHUNK: Final = 256  # queries for which the cosines of all tools are in memory at once


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Columns of pairs, one row per pair, ordered by query."""

    query: Ints
    tool: Ints
    cosine: Floats
    words: Floats
    """BM25 in units of a word that only one tool has."""
    relevant: Bools

    @property
    def start(self) -> Ints:
        """First row of each query that has rows."""
        if not len(self.query):
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(np.diff(self.query, prepend=self.query[0] - 1))

    def select_rows(self, rows: Bools) -> "Pairs":
        return Pairs(self.query[rows], self.tool[rows], self.cosine[rows], self.words[rows], self.relevant[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Pairs of judged tools and queries, by their origin."""

    candidates: Pairs
    """Candidates of a search: the nearest by cosine and the best by BM25. `words` is 0 for those not among the best of
    BM25. Every query has some."""
    right: Pairs
    """Queries for one tool, with their relevant tools."""
    random: Pairs
    """The same queries, with irrelevant tools drawn at random."""


@dataclass(frozen=True, slots=True, eq=False)
class _Evidence:
    """Evidence of one query for every tool."""

    query: int
    cosine: Floats
    words: Floats
    relevant: frozenset[int]

    def build_pairs(self, tools: Ints, words: Floats | None = None) -> Pairs:
        return Pairs(
            query=np.full(len(tools), self.query, dtype=np.int64),
            tool=tools,
            cosine=self.cosine[tools],
            words=self.words[tools] if words is None else words,
            relevant=np.array([tool in self.relevant for tool in tools.tolist()], dtype=np.bool_),
        )

    def build_candidates(self) -> Pairs:
        nearest = np.argsort(-self.cosine, kind="stable")[:CANDIDATES]
        best = np.argsort(-self.words, kind="stable")[:CANDIDATES]
        found = np.union1d(nearest, best[self.words[best] > 0])
        return self.build_pairs(found, np.where(np.isin(found, best), self.words[found], 0.0))


def build_survey(judged: Judged, vectors: JudgedVectors, encoder: LexicalEncoder) -> Survey:
    """Build all pairs of the fit, reproducibly by `SEED`.

    `encoder` reads the requests; `build_search_encoder` gives that of a search.
    """
    random, single = np.random.default_rng(SEED), judged.for_one_tool
    candidates, right, drawn = [], [], []
    index = Bm25([tool.lexical_text for tool in judged.tools], [tool.aside_text for tool in judged.tools], encoder)
    rarest = compute_rarest_idf(len(judged.tools))
    for row, query in enumerate(judged.queries):
        if row % _CHUNK == 0:
            cosines = vectors.compute_cosines(row, min(row + _CHUNK, len(judged.queries)))
        words = index.compute_scores(query.query) / rarest
        evidence = _Evidence(row, cosines[row % _CHUNK], words, judged.relevant[row])
        candidates.append(evidence.build_candidates())
        if single[row]:
            tools = random.integers(len(judged.tools), size=RANDOM_TOOLS)
            right.append(evidence.build_pairs(np.array(sorted(evidence.relevant), dtype=np.int64)))
            drawn.append(evidence.build_pairs(tools[[tool not in evidence.relevant for tool in tools.tolist()]]))
    return Survey(_concatenate(candidates), _concatenate(right), _concatenate(drawn))


def _concatenate(parts: Sequence[Pairs]) -> Pairs:
    nothing = np.zeros(0)
    empty = Pairs(nothing.astype(np.int64), nothing.astype(np.int64), nothing, nothing, nothing.astype(np.bool_))
    all_of = [empty, *parts]
    return Pairs(
        query=np.concatenate([part.query for part in all_of]),
        tool=np.concatenate([part.tool for part in all_of]),
        cosine=np.concatenate([part.cosine for part in all_of]),
        words=np.concatenate([part.words for part in all_of]),
        relevant=np.concatenate([part.relevant for part in all_of]),
    )
