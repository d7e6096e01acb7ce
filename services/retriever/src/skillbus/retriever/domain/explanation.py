"""Explanations of a search: the time of its stages, why an entry was found, and its parts of the score."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from skillbus.contracts.retriever.search_explanation import (
    MAX_SHOWN_DROPS,
    DropCause,
    DroppedHit,
    DroppedHits,
    MatchReason,
    ScoreParts,
    SearchStage,
)
from skillbus.relevance.score import EvidenceParts, compute_probability

_MOST: Final = 50.0
"""Bound of a part of a score: a cosine of 0 has an infinite one, which no reply can carry."""
_KEPT_TEXTS: Final = 2_048
"""Texts of hits whose words are kept: the same entries are found again and again."""
_KEPT_CHARACTERS: Final = 1_000
"""Longest of them: together they take a few megabytes."""
_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


class StageTimer:
    """Times stages that follow one another; the first begins now."""

    def __init__(self) -> None:
        self._ends: list[tuple[str, float, int]] = []
        self._began = time.perf_counter()

    def end_stage(self, name: str, candidates: int) -> None:
        """Record the end of a stage with its number of candidates; the next stage begins."""
        self._ends.append((name, time.perf_counter(), candidates))

    def measure_ms(self) -> float:
        """Return the milliseconds since the first stage began."""
        return round((time.perf_counter() - self._began) * 1e3, 3)

    def list_stages(self) -> tuple[SearchStage, ...]:
        """Return the stages in their order."""
        begins = (self._began, *(at for _, at, _ in self._ends))
        return tuple(
            SearchStage(name=name, took_ms=round((at - began) * 1e3, 3), candidates=candidates)
            for began, (name, at, candidates) in zip(begins, self._ends, strict=False)
        )


def make_score_parts(evidence: EvidenceParts, *, likeness: float = 0.0, meaning: float = 0.0) -> ScoreParts:
    """Return the parts of a score as a reply carries them."""
    dense, lexical, offset = evidence
    return ScoreParts(
        dense=None if dense is None else _bound(dense),
        lexical=_bound(lexical),
        offset=offset,
        likeness=likeness,
        meaning=meaning,
        fused=compute_probability((dense or 0.0) + lexical + offset),
    )


def group_drops(dropped: Mapping[DropCause, Sequence[DroppedHit]]) -> tuple[DroppedHits, ...]:
    """Return the causes that dropped something, each with its number and its first candidates."""
    return tuple(
        DroppedHits(cause=cause, count=len(dropped[cause]), first=tuple(dropped[cause][:MAX_SHOWN_DROPS]))
        for cause in DropCause
        if dropped.get(cause)
    )


def number_places(best_first: Iterable[tuple[float, str]]) -> dict[str, int]:
    """Return the place of each point, from 1. The pairs are negated scores and points, in any order."""
    return {point: place for place, (_, point) in enumerate(sorted(best_first), start=1)}


def _bound(log_odds: float) -> float:
    return max(-_MOST, min(log_odds, _MOST))


def list_reasons(
    dense: tuple[float | None, int | None],
    lexical: tuple[float | None, int | None],
    terms: tuple[str, ...],
    parts: Mapping[str, str],
) -> tuple[MatchReason, ...]:
    """Return the sides that found an entry. `dense` is its cosine and its place by it, `lexical` its BM25 likewise.

    `terms` are those that it shares with the query, `parts` its texts by their names.
    """
    reasons = list[MatchReason]()
    (cosine, dense_rank), (bm25, lexical_rank) = dense, lexical
    if cosine is not None and dense_rank is not None:
        reasons.append(MatchReason(side="dense", rank=dense_rank, score=cosine))
    if bm25 is not None and lexical_rank is not None:
        held = find_parts(terms, parts)
        reasons.append(MatchReason(side="lexical", rank=lexical_rank, score=bm25, terms=terms, parts=held))
    return tuple(reasons)


def find_parts(terms: Sequence[str], parts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the parts that hold one of the terms.

    English terms are stems and begin a word. Snowball makes i of y: the stem of `query` is `queri`.
    """
    stems = [f" {term[:-1] if len(term) > 3 and term.endswith('i') else term}" for term in terms]
    chinese = [term for term in terms if not term.isascii()]
    found = list[str]()
    for name, text in parts.items():
        words = ""
        if text:
            words = _keep_words(text) if len(text) <= _KEPT_CHARACTERS else _separate_words(text)
        joined = words.replace(" ", "") if chinese else ""
        if any(stem in words for stem in stems) or any(term in joined for term in chinese):
            found.append(name)
    return tuple(found)


@lru_cache(_KEPT_TEXTS)
def _keep_words(text: str) -> str:
    return _separate_words(text)


def _separate_words(text: str) -> str:
    """Return a text in lower case, with a space before each word."""
    return f" {_BOUNDARY.sub(' ', text).lower()}"
