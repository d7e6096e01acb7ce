"""Explanations of a tool search: the parts of each score, and the candidates that were left out."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.search_explanation import MAX_SHOWN_DROPS, DropCause, DroppedHit, ScoreParts
from skillbus.contracts.retriever.tool_search import SearchTools
from skillbus.relevance.score import Relevance, compute_rarest_idf
from skillbus.retriever.domain.explanation import make_score_parts
from skillbus.retriever.domain.tools.ranking import RankedTool


@dataclass(frozen=True, slots=True)
class ToolDrops:
    """Outcome of a search, from which follows why each other candidate was left out."""

    request: SearchTools
    fitting: Container[str]
    """Points above the threshold."""
    loaded: Container[str]
    """Points that were asked for."""
    types: Mapping[str, ToolType]
    """Types of the loaded points that the index still has."""
    given: Sequence[str]
    """Points that became hits."""

    def group(self, ranked: Sequence[RankedTool]) -> dict[DropCause, list[RankedTool]]:
        """Return the candidates that are no hits, by cause, best first."""
        counts = Counter(self.types[point] for point in self.given)
        given, dropped = set(self.given), dict[DropCause, list[RankedTool]]()
        for it in ranked:
            if it.id not in given:
                dropped.setdefault(self._find_cause(it, counts), []).append(it)
        return dropped

    def _find_cause(self, it: RankedTool, counts: Mapping[ToolType, int]) -> DropCause:
        if it.id not in self.fitting:
            return DropCause.BELOW_THRESHOLD
        kind, quotas = self.types.get(it.id), self.request.quotas
        if kind is None and it.id in self.loaded:
            return DropCause.REFUSED
        if kind in quotas and counts.get(kind, 0) >= quotas[kind]:
            return DropCause.OVER_QUOTA
        # One that fits and has room fell below the threshold because it repeats a better one.
        return DropCause.OVER_LIMIT if len(self.given) >= self.request.limit else DropCause.BELOW_THRESHOLD


def split_score(it: RankedTool, relevance: Relevance, indexed: int) -> ScoreParts:
    """Return the parts of a tool's score. `indexed` is the number of points that the store counts IDF over."""
    words = (it.bm25 or 0.0) / compute_rarest_idf(indexed)
    evidence = relevance.compute_evidence(it.cosine, words)
    likeness = 0.0 if it.evidence == evidence else it.evidence - evidence
    return make_score_parts(relevance.split_evidence(it.cosine, words), likeness=likeness)


def list_shown(dropped: Mapping[DropCause, Sequence[RankedTool]]) -> list[str]:
    """Return the points of the candidates that a reply names."""
    return [it.id for tools in dropped.values() for it in tools[:MAX_SHOWN_DROPS]]


def describe_drops(
    dropped: Mapping[DropCause, Sequence[RankedTool]], names: Mapping[str, tuple[str, str]]
) -> dict[DropCause, list[DroppedHit]]:
    """Return the candidates as a reply names them. `names` has id and name of the points that the index still has."""
    described = dict[DropCause, list[DroppedHit]]()
    for cause, tools in dropped.items():
        for it in tools:
            tool_id, name = names.get(it.id, (it.id, ""))
            hit = DroppedHit(id=tool_id, title=name, score=it.score, cosine=it.cosine)
            described.setdefault(cause, []).append(hit)
    return described
