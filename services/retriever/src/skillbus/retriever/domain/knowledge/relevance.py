"""How well an item answers a query: one number from 0 to 1 out of a cosine and a BM25 score.

    words    = BM25 / rarest_idf(N) / √(weight of the query's own terms)
    evidence = dense · logit(cosine) + lexical · words + offset

As for tools (`relevance`), but for the root: queries of a knowledge base are of all lengths, and a long one shares many
words with items that do not answer it. Nothing depends on the other candidates. Fitted on the dev sets, each of them
weighing the same, by benchmarks/knowledge_ranking.py; what was tried and what it reaches: docs/knowledge.md.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.retriever.domain.relevance import Relevance, rarest_idf

DENSE: Final = 0.45
"""Of what the model's map for tools has."""
LEXICAL: Final = 3.625
OFFSET: Final = -4.65
ALONE_POWER: Final = 3.215
ALONE_HALF: Final = 1.28
_NEAREST: Final = 0.99
"""Cosines above it count as it, and those below 1 less it as that: near 1 and 0 a cosine stands for any log-odds, and
the rounding of stored vectors would outweigh everything else."""
_LEAST_ASKED: Final = 0.25
"""The weight of a query that is one number."""
_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class KnowledgeRelevance:
    """The map of one model, for one query."""

    of_model: Relevance
    """As it is for knowledge: see `for_knowledge`."""
    asked: float
    """Weight of the query's own terms: see `own_weight`."""
    indexed: int
    """Points that the store counts IDF over."""

    def evidence(self, cosine: float | None, bm25: float | None) -> float:
        """Log-odds of answering the query. None where no dense vector could be had, or no word is shared."""
        words = (bm25 or 0.0) / rarest_idf(self.indexed) / math.sqrt(max(self.asked, _LEAST_ASKED))
        near = None if cosine is None else min(max(cosine, 1.0 - _NEAREST), _NEAREST)
        return self.of_model.evidence(near, words)


def for_knowledge(of_tools: Relevance) -> Relevance:
    """The map of a model for items of knowledge, from its map for tools."""
    return Relevance(
        dense=DENSE * of_tools.dense,
        lexical=LEXICAL,
        offset=OFFSET + DENSE * of_tools.offset,
        lexical_alone_power=ALONE_POWER,
        lexical_alone_half=ALONE_HALF,
    )


def own_weight(query: str, terms: Sequence[str], weights: Sequence[float]) -> float:
    """The weight of a query's terms without the English ones that its Chinese words were translated to."""
    if not _HAN.search(query):
        return sum(weights)
    said = query.lower()
    return sum(weight for term, weight in zip(terms, weights, strict=True) if not term.isascii() or term in said)
