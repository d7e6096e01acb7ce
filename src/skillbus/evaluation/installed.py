"""Evaluation of what a running server has installed: queries with known right hits, and its answers to them.

The files are those of the other evaluations, without their tools, items or commands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from skillbus.calibration.errors import UnreadableFileError
from skillbus.calibration.judged import load_lines
from skillbus.evaluation.cases import SEED, Case, detect_language, load_requests
from skillbus.evaluation.knowledge_cases import load_knowledge_queries
from skillbus.evaluation.measures import (
    RESAMPLES,
    Estimate,
    Floats,
    Measure,
    compute_knowledge_measures,
    compute_measures,
    estimate_mean,
)
from skillbus.evaluation.queryir.command_queries import CommandQuery
from skillbus.evaluation.report import Ids, MeasureT


class InstalledKind(StrEnum):
    """Kind of entries that are searched."""

    TOOLS = "tools"
    KNOWLEDGE = "knowledge"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True)
class InstalledQuery:
    """A query to send."""

    text: str
    scope: str | None
    right: frozenset[str]
    """Ids of the right hits; of commands, their capabilities. Empty if nothing should be found."""


@dataclass(frozen=True, slots=True)
class InstalledCases:
    """Queries of one kind."""

    kind: InstalledKind
    queries: tuple[InstalledQuery, ...]
    measure: Callable[[Ids], dict[str, Floats]]
    """Computes the measures of the kind for the hits of each query."""


@dataclass(frozen=True, slots=True)
class InstalledAnswers:
    """Hits of each query by id, best first; of commands, by capability."""

    nearest: Ids
    """Without a threshold."""
    default: Ids | None
    """With the default threshold. None for commands, which have none."""
    degraded: int
    model: str | None


@dataclass(frozen=True, slots=True)
class InstalledMiss:
    """Query without a right hit at the first place, or with hits where nothing should be found."""

    query: str
    right: tuple[str, ...]
    found: tuple[str, ...]
    """The first three hits."""
    rank: int | None
    """Place of the first right hit; None after the tenth."""


@dataclass(frozen=True, slots=True)
class InstalledReport:
    """All figures. Those of measures omit queries for which nothing should be found, and use no threshold."""

    kind: InstalledKind
    queries: int
    model: str | None
    degraded: int
    figures: dict[str, Estimate]
    answered_with_nothing: Estimate | None
    """Share of the queries for which nothing should be found that got no hit at the default threshold."""
    hit_at_1_lost: Estimate | None
    """Cost of the default threshold for the other queries."""
    misses: tuple[InstalledMiss, ...]

    def document(self, *, with_failures: bool = False) -> dict[str, object]:
        """Return the report as JSON values."""
        document: dict[str, object] = {**asdict(self), "seed": SEED, "resamples": RESAMPLES}
        misses = document.pop("misses")
        return document | ({"failures": misses} if with_failures else {})


def load_installed_cases(kind: InstalledKind, path: Path) -> InstalledCases:
    """Load a file of queries.

    Raises:
        UnreadableFileError: the file is unreadable, or has no query.
        BadLineError: a line is malformed.
    """
    if kind is InstalledKind.KNOWLEDGE:
        items = load_knowledge_queries(path)
        if not items:
            raise UnreadableFileError(path, "it has no query")
        asked = tuple(InstalledQuery(case.query, case.scope, frozenset(case.grades)) for case in items)
        return InstalledCases(kind, asked, lambda ids: _name_measures(compute_knowledge_measures(ids, items)))
    cases = load_requests(path, {}) if kind is InstalledKind.TOOLS else tuple(_load_command_queries(path))
    asked = tuple(InstalledQuery(case.query, None, case.relevant) for case in cases)
    return InstalledCases(kind, asked, lambda ids: _name_measures(compute_measures(ids, cases)))


def build_installed_report(cases: InstalledCases, answers: InstalledAnswers) -> InstalledReport:
    """Compute the figures, and list the queries that were not answered as they should be."""
    measured = {name: values[~np.isnan(values)] for name, values in cases.measure(answers.nearest).items()}
    figures = {name: estimate_mean(values) for name, values in measured.items() if len(values)}
    nothing = lost = None
    if answers.default is not None:
        hits = zip(answers.default, cases.queries, strict=True)
        empty = np.array([not found for found, query in hits if not query.right], dtype=np.float64)
        nothing = estimate_mean(empty) if len(empty) else None
        first = cases.measure(answers.default)[Measure.HIT_AT_1.value]
        kept = first[~np.isnan(first)]
        lost = estimate_mean(measured[Measure.HIT_AT_1.value] - kept) if len(kept) else None
    return InstalledReport(
        kind=cases.kind,
        queries=len(cases.queries),
        model=answers.model,
        degraded=answers.degraded,
        figures=figures,
        answered_with_nothing=nothing,
        hit_at_1_lost=lost,
        misses=tuple(_list_misses(cases.queries, answers)),
    )


def _list_misses(queries: Sequence[InstalledQuery], answers: InstalledAnswers) -> list[InstalledMiss]:
    misses = []
    for row, query in enumerate(queries):
        hits = answers.nearest[row] if query.right or answers.default is None else answers.default[row]
        rank = next((place for place, name in enumerate(hits, 1) if name in query.right), None)
        if rank != 1 and (query.right or hits):
            misses.append(InstalledMiss(query.text, tuple(sorted(query.right)), tuple(hits[:3]), rank))
    return misses


def _load_command_queries(path: Path) -> list[Case]:
    """Return the queries of commands. A command of any expected capability is right."""
    return [
        Case(line.query, detect_language(line.query), "any", (frozenset(line.expected_capability),), None)
        for _, line in load_lines(path, CommandQuery)
    ]


def _name_measures(values: Mapping[MeasureT, Floats]) -> dict[str, Floats]:
    return {measure.value: numbers for measure, numbers in values.items()}
