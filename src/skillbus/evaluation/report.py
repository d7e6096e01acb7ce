"""Report of an evaluation of tool search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import numpy as np

from skillbus.calibration.judged import Bools
from skillbus.evaluation.cases import SEED, Case, Cases
from skillbus.evaluation.measures import (
    RESAMPLES,
    Estimate,
    Floats,
    Measure,
    compute_measures,
    estimate_mean,
)

Ids = Sequence[Sequence[str]]
MeasureT = TypeVar("MeasureT", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure over some requests."""

    search: Estimate
    bm25: Estimate
    difference: Estimate
    """`search` minus `bm25`, paired by request."""


@dataclass(frozen=True, slots=True)
class Slice(Generic[MeasureT]):
    """Requests of one kind."""

    name: str
    queries: int
    figures: dict[MeasureT, Figure]


@dataclass(frozen=True, slots=True)
class Abstention:
    """Effect of the default threshold."""

    no_match: int
    """Requests without a relevant tool."""
    answered_with_nothing: Estimate | None
    """Share of them without hits; None if there are none."""
    bm25_answered_with_nothing: Estimate | None
    """The same share for BM25, which finds nothing without a common word."""
    recall_at_5_lost: Estimate | None
    """Cost for the requests with a relevant tool."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Hits of each case: tool ids, best first."""

    nearest: Ids
    """Without a threshold."""
    default: Ids
    """With the default threshold."""
    bm25: Ids
    degraded: int
    """Requests answered by words alone, without a vector."""
    model: str | None
    import_s: float
    ask_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures. Slices omit requests without a relevant tool, and use no threshold."""

    tools: int
    queries: int
    model: str | None
    degraded: int
    slices: tuple[Slice[Measure], ...]
    abstention: Abstention
    import_s: float
    ask_s: float

    def document(self) -> dict[str, object]:
        return {**asdict(self), "seed": SEED, "resamples": RESAMPLES}


def build_report(cases: Cases, answers: Answers) -> Report:
    search, bm25 = compute_measures(answers.nearest, cases.cases), compute_measures(answers.bm25, cases.cases)
    return Report(
        tools=len(cases.tools),
        queries=len(cases.cases),
        model=answers.model,
        degraded=answers.degraded,
        slices=tuple(build_slices(search, bm25, select_rows(cases.cases))),
        abstention=_build_abstention(cases.cases, answers),
        import_s=round(answers.import_s, 2),
        ask_s=round(answers.ask_s, 2),
    )


def build_slices(
    search: Mapping[MeasureT, Floats], bm25: Mapping[MeasureT, Floats], masks: Mapping[str, Bools]
) -> Iterator[Slice[MeasureT]]:
    """Compare search and BM25 on the requests of each mask, without the cases that a measure does not apply to."""
    for name, rows in masks.items():
        figures = {}
        for measure in search:
            applies = rows & ~np.isnan(search[measure])
            if applies.any():
                one, other = search[measure][applies], bm25[measure][applies]
                figures[measure] = Figure(estimate_mean(one), estimate_mean(other), estimate_mean(one - other))
        if rows.any():
            yield Slice(name, int(rows.sum()), figures)


def select_rows(cases: Sequence[Case]) -> dict[str, Bools]:
    """Return the mask of each slice by name: language, kind, both, and requests for tools in another language."""
    answerable = np.array([bool(case.wants) for case in cases], dtype=np.bool_)
    languages = np.array([case.language for case in cases], dtype=np.str_)
    kinds = np.array([case.kind for case in cases], dtype=np.str_)
    others = np.array([case.crosses_to or "" for case in cases], dtype=np.str_)
    of_language = {name: answerable & (languages == name) for name in sorted({case.language for case in cases})}
    of_kind = {name: answerable & (kinds == name) for name in sorted({case.kind for case in cases})}
    crossings = sorted({(case.language, case.crosses_to) for case in cases if case.crosses_to is not None})
    return (
        {"all": answerable}
        | of_language
        | {str(kind): rows for kind, rows in of_kind.items()}
        | {f"{language}, {kind}": of_language[language] & of_kind[kind] for language in of_language for kind in of_kind}
        | {f"{language} to {other}": of_language[language] & (others == other) for language, other in crossings}
    )


def _build_abstention(cases: Sequence[Case], answers: Answers) -> Abstention:
    nothing = [row for row, case in enumerate(cases) if not case.wants]
    recalls = [compute_measures(ids, cases)[Measure.RECALL_AT_5] for ids in (answers.nearest, answers.default)]
    lost = recalls[0] - recalls[1]
    return Abstention(
        no_match=len(nothing),
        answered_with_nothing=_estimate_empty(answers.default, nothing),
        bm25_answered_with_nothing=_estimate_empty(answers.bm25, nothing),
        recall_at_5_lost=None if np.isnan(lost).all() else estimate_mean(lost[~np.isnan(lost)]),
    )


def _estimate_empty(answers: Ids, rows: Sequence[int]) -> Estimate | None:
    return estimate_mean(np.array([float(not answers[row]) for row in rows])) if rows else None
