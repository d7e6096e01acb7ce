"""Evidence that a knowledge item answers a query, as log-odds, computed from a cosine and a BM25 score.

    words    = BM25 / rarest_idf(N) / √(weight of the query's own terms)
    evidence = dense · logit(cosine) + lexical · words + offset

The formula is that of tools (`score`) except for the root: queries of a knowledge base have all lengths, and a long one
shares many words with items that do not answer it. It does not depend on the other candidates. The constants
were fitted on the dev sets, all sets with equal weight, by benchmarks/fitting/knowledge_ranking.py; docs/knowledge.md
has the alternatives and the results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.common.characters import HAN_CHARACTER
from skillbus.relevance.score import EvidenceParts, Relevance, compute_rarest_idf

DENSE: Final = 0.45
"""Factor on the dense weight of the model's map for tools."""
LEXICAL: Final = 3.625
OFFSET: Final = -4.65
ALONE_POWER: Final = 3.215
ALONE_HALF: Final = 1.28
_NEAREST: Final = 0.99
"""Cosines are clamped to [1 - _NEAREST, _NEAREST]: near 0 and 1 a cosine stands for any log-odds, and the rounding of
stored vectors would outweigh everything else."""
_LEAST_ASKED: Final = 0.25
"""Weight of a query that is one number."""


@dataclass(frozen=True, slots=True)
class KnowledgeRelevance:
    """Map of one model for one query."""

    of_model: Relevance
    """The model's map for knowledge items; see `derive_knowledge_relevance`."""
    asked: float
    """Weight of the query's own terms; see `sum_own_weights`."""
    indexed: int
    """Number of points over which the store computes IDF."""

    def compute_evidence(self, cosine: float | None, bm25: float | None) -> float:
        """Return the log-odds that the item answers the query; None stands for no dense vector, or no common word."""
        return self.of_model.compute_evidence(*self._measure(cosine, bm25))

    def split_evidence(self, cosine: float | None, bm25: float | None) -> EvidenceParts:
        """Return the log-odds of each side."""
        return self.of_model.split_evidence(*self._measure(cosine, bm25))

    def _measure(self, cosine: float | None, bm25: float | None) -> tuple[float | None, float]:
        words = (bm25 or 0.0) / compute_rarest_idf(self.indexed) / math.sqrt(max(self.asked, _LEAST_ASKED))
        return None if cosine is None else min(max(cosine, 1.0 - _NEAREST), _NEAREST), words


def derive_knowledge_relevance(of_tools: Relevance) -> Relevance:
    """Derive a model's map for knowledge items from its map for tools."""
    return Relevance(
        dense=DENSE * of_tools.dense,
        lexical=LEXICAL,
        offset=OFFSET + DENSE * of_tools.offset,
        lexical_alone_power=ALONE_POWER,
        lexical_alone_half=ALONE_HALF,
    )


def sum_own_weights(query: str, terms: Sequence[str], weights: Sequence[float]) -> float:
    """Sum the weights of a query's terms without the English translations of its Chinese words."""
    if not HAN_CHARACTER.search(query):
        return sum(weights)
    said = query.lower()
    return sum(weight for term, weight in zip(terms, weights, strict=True) if not term.isascii() or term in said)
