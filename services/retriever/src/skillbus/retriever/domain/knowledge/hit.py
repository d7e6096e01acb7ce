"""An item as a hit tells it."""

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.usage import AnsweredRequest, KnowledgeUse
from skillbus.contracts.retriever.knowledge_search import KnowledgeHit, SearchKnowledge
from skillbus.contracts.retriever.tool_search import MatchReason
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.knowledge.ranking import RankedItem
from skillbus.retriever.domain.parts import parts_with

REPLY_CHARACTERS: Final = 130_000
"""Of the contents of all hits: a character takes six bytes at most, and a message of the bus 1 MiB."""


def hit_of(
    ranked: RankedItem, request: SearchKnowledge, query_terms: Mapping[int, str], held: Container[int]
) -> KnowledgeHit:
    """The hit: its place, what it is, and why; `held` has the indices of the terms of the query that it holds."""
    found = ranked.scored.found
    terms = tuple(term for index, term in query_terms.items() if index in held)
    hit = KnowledgeHit.model_construct(
        item=found.item,
        content_cut=found.content_cut,
        score=ranked.score,
        cosine=ranked.scored.cosine,
        scope_match=ranked.scope_match,
        reasons=tuple(_reasons(ranked, terms)),
        factors=ranked.factors if request.explain else None,
        relevance=compute_probability(ranked.evidence) if request.explain else None,
        indexed=ranked.scored.indexed,
    )
    return cut(hit, request.content_characters)


def cut(hit: KnowledgeHit, characters: int) -> KnowledgeHit:
    """The hit with no more of its content."""
    if len(hit.item.content) <= characters:
        return hit
    beginning = hit.item.model_copy(update={"content": hit.item.content[:characters]})
    return hit.model_copy(update={"item": beginning, "content_cut": True})


def for_a_message(hits: Sequence[KnowledgeHit]) -> tuple[KnowledgeHit, ...]:
    """The hits, with as much of each content as all may have where together they are too much for a message."""
    if sum(len(hit.item.content) for hit in hits) <= REPLY_CHARACTERS:
        return tuple(hits)
    return tuple(cut(hit, REPLY_CHARACTERS // len(hits)) for hit in hits)


def used_in(request: SearchKnowledge, hits: Sequence[KnowledgeHit], request_id: str, at: datetime) -> AnsweredRequest:
    """What the statistics are told of an answer."""
    return AnsweredRequest(
        request_id=request_id,
        scene=request.scene,
        query=request.query,
        at=at,
        uses=tuple(
            KnowledgeUse.model_construct(
                id=hit.item.id, project=hit.item.project, version=hit.item.version, position=position
            )
            for position, hit in enumerate(hits, start=1)
        ),
    )


def _reasons(ranked: RankedItem, terms: tuple[str, ...]) -> Iterator[MatchReason]:
    scored = ranked.scored
    if scored.cosine is not None and ranked.dense_rank is not None:
        yield MatchReason.model_construct(side="dense", rank=ranked.dense_rank, score=scored.cosine)
    if scored.bm25 is not None and ranked.lexical_rank is not None:
        parts = parts_with(terms, _parts(scored.found.item))
        yield MatchReason.model_construct(
            side="lexical", rank=ranked.lexical_rank, score=scored.bm25, terms=terms, parts=parts
        )


def _parts(item: KnowledgeItem) -> dict[str, str]:
    """What its terms come from."""
    return {"title": item.title, "content": item.content, "tags": " ".join(item.tags), "scope": item.scope}
