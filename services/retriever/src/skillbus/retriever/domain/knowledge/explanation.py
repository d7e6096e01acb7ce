"""Candidates that a search for knowledge left out, by cause."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.retriever.search_explanation import DropCause, DroppedHit
from skillbus.relevance.knowledge_evidence import KnowledgeRelevance
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.index import IndexCandidate
from skillbus.retriever.domain.knowledge.ranking import RankedItem


@dataclass(frozen=True, slots=True)
class KnowledgeDrops:
    """Stages of a search, each with what it kept of the one before."""

    candidates: Mapping[str, IndexCandidate]
    shown: Sequence[FoundItem]
    """Candidates that the record lets be shown."""
    ranked: Sequence[RankedItem]
    fitting: Sequence[RankedItem]
    top_k: int
    relevance: KnowledgeRelevance

    def group(self) -> dict[DropCause, list[DroppedHit]]:
        """Return the candidates that are no hits, by cause, best first."""
        allowed = {found.item.id: found.item.title for found in self.shown}
        ranked, fitting = {it.id for it in self.ranked}, {it.id for it in self.fitting}
        refused = [self._score("", one) for point, one in self.candidates.items() if point not in allowed]
        unrelated = [
            self._score(title, self.candidates[point]) for point, title in allowed.items() if point not in ranked
        ]
        return {
            DropCause.BELOW_THRESHOLD: [_describe(it) for it in self.ranked if it.id not in fitting],
            DropCause.OVER_LIMIT: [_describe(it) for it in self.fitting[self.top_k :]],
            DropCause.OTHER_SCOPE: sorted(unrelated, key=_order),
            DropCause.REFUSED: sorted(refused, key=_order),
        }

    def _score(self, title: str, one: IndexCandidate) -> DroppedHit:
        """Return a candidate that was not ranked, with the score of its similarity alone."""
        evidence = self.relevance.compute_evidence(one.cosine, one.bm25)
        return DroppedHit(id=one.id, title=title, score=compute_probability(evidence), cosine=one.cosine)


def _describe(it: RankedItem) -> DroppedHit:
    return DroppedHit(id=it.id, title=it.found.item.title, score=it.score, cosine=it.candidate.cosine)


def _order(hit: DroppedHit) -> tuple[float, str]:
    return -(hit.score or 0.0), hit.id
