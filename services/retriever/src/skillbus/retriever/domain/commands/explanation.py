"""Explanations of a search for commands: reasons and parts of each score, and the candidates that were left out."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from skillbus.contracts.retriever.command_resolution import CommandHit
from skillbus.contracts.retriever.search_explanation import DropCause, DroppedHit
from skillbus.relevance.command_evidence import CommandRelevance, compare_meanings
from skillbus.relevance.household.meaning import Meaning
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.commands.ports import IndexedCommand
from skillbus.retriever.domain.explanation import list_reasons, make_score_parts, number_places
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate


@dataclass(frozen=True, slots=True)
class RankedCommand:
    """A candidate in its place."""

    evidence: float
    candidate: IndexCandidate
    command: IndexedCommand

    @property
    def score(self) -> float:
        """From 0 to 1."""
        return compute_probability(self.evidence)

    @property
    def order(self) -> tuple[float, float, str]:
        """By evidence, then cosine, both descending, then id."""
        cosine = self.candidate.cosine
        return -self.evidence, -1.0 if cosine is None else -cosine, self.command.id


@dataclass(frozen=True, slots=True)
class CommandExplainer:
    """Explains the hits of one query."""

    query: EmbeddedQuery
    meaning: Meaning
    relevance: CommandRelevance
    candidates: Sequence[IndexCandidate]
    held: Mapping[str, Container[int]]
    """Indices of the terms of each hit."""

    def explain_hits(self, hits: Sequence[tuple[RankedCommand, CommandHit]]) -> tuple[CommandHit, ...]:
        """Return the hits with their reasons and the parts of their scores."""
        dense = number_places((-one.cosine, one.id) for one in self.candidates if one.cosine is not None)
        lexical = number_places((-one.bm25, one.id) for one in self.candidates if one.bm25 is not None)
        spoken = tuple(zip(self.query.indices, self.query.terms, strict=True))
        explained = list[CommandHit]()
        for it, hit in hits:
            one, held = it.candidate, self.held.get(it.candidate.id, ())
            terms = tuple(term for index, term in spoken if index in held)
            reasons = list_reasons((one.cosine, dense.get(one.id)), (one.bm25, lexical.get(one.id)), terms, {})
            meaning = compare_meanings(self.meaning, it.command.meaning)
            parts = make_score_parts(self.relevance.split_evidence(one.cosine, one.bm25), meaning=meaning)
            explained.append(hit.model_copy(update={"reasons": reasons, "parts": parts}))
        return tuple(explained)


def group_command_drops(
    ranked: Sequence[RankedCommand], candidates: Sequence[IndexCandidate], threshold: float, limit: int
) -> dict[DropCause, list[DroppedHit]]:
    """Return the candidates that are no hits, by cause, best first."""
    known = {it.candidate.id for it in ranked}
    fitting = [it for it in ranked if it.score >= threshold]
    return {
        DropCause.BELOW_THRESHOLD: [_describe(it) for it in ranked if it.score < threshold],
        DropCause.OVER_LIMIT: [_describe(it) for it in fitting[limit:]],
        DropCause.REFUSED: [DroppedHit(id=one.id, cosine=one.cosine) for one in candidates if one.id not in known],
    }


def _describe(it: RankedCommand) -> DroppedHit:
    title = next(iter(it.command.description.values()), "")
    return DroppedHit(id=it.command.id, title=title, score=it.score, cosine=it.candidate.cosine)
