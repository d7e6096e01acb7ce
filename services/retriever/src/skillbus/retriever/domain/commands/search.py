"""Search for commands: embed the phrases, collect the candidates of both sides, and score them (ADR 0007)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from skillbus.contracts.retriever.command_resolution import (
    CommandHit,
    CommandSearchExplanation,
    CommandsFound,
    SearchCommands,
)
from skillbus.relevance.command_evidence import CommandRelevance, derive_command_relevance
from skillbus.relevance.command_text import build_phrase_text, build_phrase_words
from skillbus.relevance.household.meaning import Meaning, read_meaning
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.commands.explanation import CommandExplainer, RankedCommand, group_command_drops
from skillbus.retriever.domain.commands.ports import (
    CommandIndex,
    CommandScores,
    IndexedCommand,
    ScoredCommand,
    WantedCommands,
)
from skillbus.retriever.domain.explanation import StageTimer, group_drops
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex, QueryEmbedder, keep_side

MOST_SCORED: Final = 2_000
"""Most commands of each side whose scores are computed for the devices of one sentence."""


@dataclass(frozen=True, slots=True)
class CommandSearch:
    """Finds commands for a query, and scores the commands of devices; a `CommandScorer`."""

    embedder: QueryEmbedder
    index: CommandIndex
    candidates: int
    """Candidates of each side of a search, at least."""

    async def search_commands(self, request: SearchCommands) -> CommandsFound:
        """Return the commands nearest to a query, best first.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder does not answer.
        """
        timer = StageTimer()
        live = await self.index.find_live_index()
        if live is None:
            return CommandsFound(results=(), took_ms=timer.measure_ms())
        embedded = await self._embed(request.query, live)
        query, meaning = keep_side(embedded, request.side), read_meaning(request.query)
        timer.end_stage("embed", 0)
        wanted = WantedCommands(request.project, request.capabilities)
        count = max(self.candidates, 2 * request.limit)
        (candidates,) = await self.index.find_candidates(live, (query,), wanted, count)
        timer.end_stage("candidates", len(candidates))
        commands = await self.index.load_commands(live, [one.id for one in candidates])
        timer.end_stage("fetch", len(commands))
        ranked = _rank(live, query, meaning, candidates, commands)
        threshold = request.threshold or 0.0
        best = [it for it in ranked if it.score >= threshold][: request.limit]
        hits = tuple(_make_hit(it) for it in best)
        timer.end_stage("rank", len(hits))
        explanation = None
        if request.explain:
            held = await self.index.load_terms(live, [it.candidate.id for it in best])
            explainer = CommandExplainer(query, meaning, _make_relevance(live, query), candidates, held)
            hits = explainer.explain_hits(list(zip(best, hits, strict=True)))
            explanation = CommandSearchExplanation(
                stages=timer.list_stages(),
                indexed=live.items,
                threshold=threshold,
                best_score=ranked[0].score if ranked else None,
                terms=tuple(query.terms),
                dropped=group_drops(group_command_drops(ranked, candidates, threshold, request.limit)),
            )
        return CommandsFound(
            results=hits,
            degraded="lexical" if embedded.dense is None else None,
            model=query.model,
            explanation=explanation,
            took_ms=timer.measure_ms(),
        )

    async def score_commands(
        self, project: str, phrases: Sequence[str], capabilities: Sequence[str], command_ids: Sequence[str]
    ) -> CommandScores:
        """See `CommandScorer.score_commands`."""
        live = await self.index.find_live_index() if phrases and (capabilities or command_ids) else None
        if live is None:
            return CommandScores()
        queries = await asyncio.gather(*(self._embed(phrase, live) for phrase in phrases))
        wanted = WantedCommands(project, tuple(capabilities), tuple(command_ids))
        found = await self.index.find_candidates(live, queries, wanted, min(MOST_SCORED, live.items))
        commands = await self.index.load_commands(live, list({one.id for candidates in found for one in candidates}))
        scores: dict[str, list[float]] = {one.id: [0.0] * len(phrases) for one in commands.values()}
        for place, (phrase, query, candidates) in enumerate(zip(phrases, queries, found, strict=True)):
            for it in _rank(live, query, read_meaning(phrase), candidates, commands):
                scores[it.command.id][place] = compute_probability(it.evidence)
        scored = [_add_scores(command, tuple(scores[command.id])) for command in commands.values()]
        return CommandScores(
            commands=tuple(sorted(scored, key=lambda it: (-max(it.scores), it.id))),
            model=queries[0].model,
            degraded=any(query.dense is None for query in queries),
        )

    async def _embed(self, phrase: str, live: LiveIndex) -> EmbeddedQuery:
        """Embed a phrase in simplified characters; its words include its meaning."""
        text = build_phrase_text(phrase)
        embedded = await self.embedder.embed_query(build_phrase_words(phrase), (text,), live.fingerprint)
        return replace(embedded, parts=())  # the only part is the whole


def _rank(
    live: LiveIndex,
    query: EmbeddedQuery,
    meaning: Meaning,
    candidates: Sequence[IndexCandidate],
    commands: Mapping[str, IndexedCommand],
) -> list[RankedCommand]:
    """Sort the candidates that the index still has, best first."""
    relevance = _make_relevance(live, query)
    ranked = list[RankedCommand]()
    for one in candidates:
        if (command := commands.get(one.id)) is not None:
            evidence = relevance.compute_evidence(one.cosine, one.bm25, meaning, command.meaning)
            ranked.append(RankedCommand(evidence, one, command))
    return sorted(ranked, key=lambda it: it.order)


def _make_relevance(live: LiveIndex, query: EmbeddedQuery) -> CommandRelevance:
    return CommandRelevance(derive_command_relevance(query.relevance), live.items)


def _make_hit(ranked: RankedCommand) -> CommandHit:
    command = ranked.command
    return CommandHit(
        id=command.id,
        capability=command.capability,
        command=command.command,
        description=dict(command.description),
        score=ranked.score,
        cosine=ranked.candidate.cosine,
    )


def _add_scores(command: IndexedCommand, scores: tuple[float, ...]) -> ScoredCommand:
    return ScoredCommand(
        id=command.id,
        capability=command.capability,
        command=command.command,
        description=command.description,
        arguments=command.arguments,
        scores=scores,
    )
