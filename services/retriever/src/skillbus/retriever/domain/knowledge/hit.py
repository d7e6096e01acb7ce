"""Knowledge hits as a reply carries them."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from skillbus.common.paging import JSON_CHARACTER_BYTES, MESSAGE_BYTES
from skillbus.contracts.retriever.knowledge_search import KnowledgeHit, SearchKnowledge
from skillbus.contracts.retriever.search_explanation import ScoreParts
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.explanation import list_reasons
from skillbus.retriever.domain.knowledge.ranking import RankedItem

REPLY_CHARACTERS: Final = MESSAGE_BYTES // JSON_CHARACTER_BYTES
"""Characters of all contents of a reply."""


def make_hit(
    ranked: RankedItem,
    request: SearchKnowledge,
    query_terms: Mapping[int, str],
    held: Container[int],
    parts: ScoreParts | None = None,
) -> KnowledgeHit:
    """Return the hit of an item. `held` has the indices of the terms that the item holds."""
    terms = tuple(term for index, term in query_terms.items() if index in held)
    cosine, bm25, item = ranked.candidate.cosine, ranked.candidate.bm25, ranked.found.item
    texts = {"title": item.title, "content": item.content, "tags": " ".join(item.tags), "scope": item.scope}
    hit = KnowledgeHit(
        item=item,
        content_cut=ranked.found.content_cut,
        score=ranked.score,
        cosine=cosine,
        scope_match=ranked.scope_match,
        reasons=list_reasons((cosine, ranked.dense_rank), (bm25, ranked.lexical_rank), terms, texts),
        factors=ranked.factors if request.explain else None,
        relevance=compute_probability(ranked.evidence) if request.explain else None,
        parts=parts,
        indexed=ranked.indexed,
    )
    return cut_content(hit, request.content_characters)


def cut_content(hit: KnowledgeHit, characters: int) -> KnowledgeHit:
    """Return the hit with at most so many characters of its content."""
    if len(hit.item.content) <= characters:
        return hit
    beginning = hit.item.model_copy(update={"content": hit.item.content[:characters]})
    return hit.model_copy(update={"item": beginning, "content_cut": True})


def fit_reply(hits: Sequence[KnowledgeHit]) -> tuple[KnowledgeHit, ...]:
    """Cut the contents evenly where all of them together exceed a message."""
    if sum(len(hit.item.content) for hit in hits) <= REPLY_CHARACTERS:
        return tuple(hits)
    return tuple(cut_content(hit, REPLY_CHARACTERS // len(hits)) for hit in hits)
