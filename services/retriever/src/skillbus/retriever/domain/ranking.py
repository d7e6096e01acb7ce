"""Candidates of both sides of a search → the hits of its reply, best first.

The order is total: evidence, then cosine, both descending, then id. Scores therefore come in descending order, and the
order of the candidates makes no difference.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillbus.contracts.retriever import Reason, ToolHit, ToolType
from skillbus.retriever.domain.relevance import Relevance, probability, rarest_idf
from skillbus.retriever.domain.tool_type import tool_type_of


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool that one side of the search found, or both."""

    id: str
    name: str
    description: str
    tool_type: str | None = None
    """As stored; None where the point does not say."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    cosine: float | None = None
    """Also of a tool that only the lexical side found; None when no dense vector could be had."""
    bm25: float | None = None
    """None where the lexical side did not find the tool."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How many hits, and how good."""

    limit: int
    threshold: float = 0.0
    """Hits with a score below it are left out."""


def rank(candidates: Sequence[Candidate], relevance: Relevance, catalogue_size: int, cut: Cut) -> tuple[ToolHit, ...]:
    """`catalogue_size` is the number of tools that the store counts IDF over. Ids must be distinct.

    A candidate of an unknown kind is skipped with a warning, and the next takes its place.
    """
    idf = rarest_idf(catalogue_size)
    scored = [(relevance.evidence(c.cosine, (c.bm25 or 0.0) / idf), c) for c in candidates]
    scored.sort(key=lambda pair: (-pair[0], -_or_least(pair[1].cosine), pair[1].id))
    dense = _ranks([(-c.cosine, c.id) for c in candidates if c.cosine is not None])
    lexical = _ranks([(-c.bm25, c.id) for c in candidates if c.bm25 is not None])
    hits: list[ToolHit] = []
    for evidence, candidate in scored:
        score = probability(evidence)
        if len(hits) >= cut.limit or score < cut.threshold:
            break
        tool_type = tool_type_of(candidate.id, candidate.tool_type)
        if tool_type is not None:
            hits.append(_hit(candidate, tool_type, score, tuple(_reasons(candidate, dense, lexical))))
    return tuple(hits)


def with_terms(hit: ToolHit, terms: tuple[str, ...]) -> ToolHit:
    """The hit, its lexical reason telling which terms of the query its text holds."""
    reasons = tuple(
        reason.model_copy(update={"terms": terms}) if reason.side == "lexical" else reason for reason in hit.reasons
    )
    return hit.model_copy(update={"reasons": reasons})


def _hit(candidate: Candidate, tool_type: ToolType, score: float, reasons: tuple[Reason, ...]) -> ToolHit:
    return ToolHit(
        id=candidate.id,
        name=candidate.name,
        description=candidate.description,
        score=score,
        cosine=candidate.cosine,
        tool_type=tool_type,
        tags=candidate.tags,
        metadata={**candidate.metadata, "type": tool_type.value},
        reasons=reasons,
    )


def _reasons(candidate: Candidate, dense: Mapping[str, int], lexical: Mapping[str, int]) -> Iterator[Reason]:
    if candidate.cosine is not None:
        yield Reason(side="dense", rank=dense[candidate.id], score=candidate.cosine)
    if candidate.bm25 is not None:
        yield Reason(side="lexical", rank=lexical[candidate.id], score=candidate.bm25)


def _ranks(best_first: list[tuple[float, str]]) -> dict[str, int]:
    """Place of each id, from 1."""
    return {tool_id: place for place, (_, tool_id) in enumerate(sorted(best_first), start=1)}


def _or_least(value: float | None) -> float:
    return -math.inf if value is None else value
