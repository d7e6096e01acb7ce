"""Results of searches in the form that the page shows, the same for tools, knowledge and commands."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skillbus.contracts.errors import RequestError
from skillbus.contracts.retriever.command_resolution import CommandHit, CommandsFound
from skillbus.contracts.retriever.knowledge_search import KnowledgeFound, KnowledgeHit, KnowledgeSearchExplanation
from skillbus.contracts.retriever.search_explanation import MatchReason, ScoreParts
from skillbus.contracts.retriever.tool_search import ToolHit, ToolSearchExplanation, ToolsFound
from skillbus.gateway.service.pages.sections.search.options import SearchOptions

AnyFound = ToolsFound | KnowledgeFound | CommandsFound


@dataclass(frozen=True, slots=True)
class PartBar:
    """Part of a score, drawn as a bar."""

    name: str
    value: float
    """Log-odds."""
    reason: MatchReason | None = None


@dataclass(frozen=True, slots=True)
class ShownHit:
    """Hit of any kind."""

    rank: int
    id: str
    title: str
    tag: str
    text: str
    score: float
    cosine: float | None
    fused: float | None
    bars: tuple[PartBar, ...] = ()
    repeats: str | None = None
    scope_match: str | None = None
    keeps: str = ""
    """JSON by which a line of an evaluation names it: of a command, its capability."""


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """Outcome of a search under one configuration."""

    name: str
    options: SearchOptions
    found: AnyFound | None = None
    error: RequestError | None = None
    hits: tuple[ShownHit, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Entries that passed no filter or were not near the query, by reason."""

    @property
    def ranks(self) -> dict[str, int]:
        """Rank of each hit by its id."""
        return {hit.id: hit.rank for hit in self.hits}

    @property
    def took_ms(self) -> float:
        """Time of all stages."""
        explanation = None if self.found is None else self.found.explanation
        return sum(stage.took_ms for stage in explanation.stages) if explanation else 0.0


def make_column(name: str, options: SearchOptions, found: AnyFound | RequestError) -> FoundColumn:
    """Return a search's outcome as it is shown."""
    if isinstance(found, RequestError):
        return FoundColumn(name, options, error=found)
    results: Sequence[ToolHit | KnowledgeHit | CommandHit] = found.results
    hits = tuple(_make_hit(rank, hit) for rank, hit in enumerate(results, start=1))
    return FoundColumn(name, options, found, None, hits, dict(_count_unseen(found)))


def find_scale(columns: Sequence[FoundColumn]) -> float:
    """Return the largest part of a score, so that all bars have one scale."""
    return max((abs(bar.value) for column in columns for hit in column.hits for bar in hit.bars), default=1.0) or 1.0


def _make_hit(rank: int, hit: ToolHit | KnowledgeHit | CommandHit) -> ShownHit:
    bars = tuple(_list_bars(hit))
    fused = None if hit.parts is None else hit.parts.fused
    if isinstance(hit, ToolHit):
        shown = (hit.id, hit.name, hit.tool_type.value, hit.description)
        return ShownHit(rank, *shown, hit.score, hit.cosine, fused, bars, hit.repeats, keeps=json.dumps(hit.id))
    if isinstance(hit, CommandHit):
        text = " · ".join(hit.description.values())
        return ShownHit(
            rank,
            hit.id,
            hit.id,
            hit.capability,
            text,
            hit.score,
            hit.cosine,
            fused,
            bars,
            keeps=json.dumps(hit.capability),
        )
    item, near = hit.item, None if hit.scope_match is None else hit.scope_match.value
    shown = (item.id, item.title, item.type, item.content)
    return ShownHit(
        rank, *shown, hit.score, hit.cosine, fused, bars, scope_match=near, keeps=json.dumps({"id": item.id})
    )


def _list_bars(hit: ToolHit | KnowledgeHit | CommandHit) -> Iterator[PartBar]:
    """Yield the parts of a hit's score that are not zero; both sides in any case."""
    if hit.parts is None:
        return
    parts: ScoreParts = hit.parts
    reasons = {reason.side: reason for reason in hit.reasons}
    if parts.dense is not None:
        yield PartBar("dense", parts.dense, reasons.get("dense"))
    yield PartBar("lexical", parts.lexical, reasons.get("lexical"))
    factors = dict(hit.factors) if isinstance(hit, KnowledgeHit) and hit.factors is not None else {}
    for name, value in {
        "offset": parts.offset,
        "likeness": parts.likeness,
        "meaning": parts.meaning,
        **factors,
    }.items():
        if value:
            yield PartBar(name, value)


def _count_unseen(found: AnyFound) -> Iterator[tuple[str, int]]:
    """Yield how many entries were not even candidates, by reason."""
    explanation = found.explanation
    if not isinstance(explanation, (ToolSearchExplanation, KnowledgeSearchExplanation)):
        return
    stages = {stage.name: stage.candidates for stage in explanation.stages}
    if "filter" not in stages:
        return
    if isinstance(explanation, KnowledgeSearchExplanation):
        yield "of another scope", explanation.other_scopes
        others = explanation.indexed - stages["filter"] - explanation.other_scopes
        yield "filtered out, or of another project", max(0, others)
    else:
        yield "filtered out", max(0, explanation.indexed - stages["filter"])
    yield "not among the nearest", max(0, stages["filter"] - stages.get("candidates", 0))
