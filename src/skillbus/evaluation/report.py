"""Report of an evaluation of tool search."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from skillbus.evaluation.cases import SEED, Case, Cases
from skillbus.evaluation.measures import RESAMPLES, Estimate, Floats, Measure, compute_measures, estimate_mean

Ids = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure over some requests."""

    search: Estimate
    bm25: Estimate
    difference: Estimate
    """`search` minus `bm25`, paired by request."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Requests of one kind."""

    name: str
    queries: int
    figures: dict[Measure, Figure]


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
    slices: tuple[Slice, ...]
    abstention: Abstention
    import_s: float
    ask_s: float

    def document(self) -> dict[str, object]:
        """Return the report for programs."""
        return {**asdict(self), "seed": SEED, "resamples": RESAMPLES}


def build_report(cases: Cases, answers: Answers) -> Report:
    """Compute all figures of these answers."""
    return Report(
        tools=len(cases.tools),
        queries=len(cases.cases),
        model=answers.model,
        degraded=answers.degraded,
        slices=tuple(_build_slices(cases.cases, answers)),
        abstention=_build_abstention(cases.cases, answers),
        import_s=round(answers.import_s, 2),
        ask_s=round(answers.ask_s, 2),
    )


def _build_slices(cases: Sequence[Case], answers: Answers) -> Iterator[Slice]:
    search, bm25 = compute_measures(answers.nearest, cases), compute_measures(answers.bm25, cases)
    for name, belongs in _list_filters(cases).items():
        rows = np.array([bool(case.wants) and belongs(case) for case in cases], dtype=np.bool_)
        if rows.any():
            pairs = {measure: (search[measure][rows], bm25[measure][rows]) for measure in Measure}
            figures = {measure: build_figure(*pair) for measure, pair in pairs.items() if not np.isnan(pair[0]).all()}
            yield Slice(name, int(rows.sum()), figures)


def _list_filters(cases: Sequence[Case]) -> dict[str, Callable[[Case], bool]]:
    """Return the filters of all slices by name: language, kind, both, and requests for tools in another language."""
    languages = sorted({case.language for case in cases})
    kinds = sorted({case.kind for case in cases})
    crossings = sorted({(case.language, case.crosses_to) for case in cases if case.crosses_to is not None})
    named: dict[str, Callable[[Case], bool]] = {"all": lambda _: True}
    for language in languages:
        named[language] = _has_kind(language, None)
    for kind in kinds:
        named[kind] = _has_kind(None, kind)
    for language in languages:
        named |= {f"{language}, {kind}": _has_kind(language, kind) for kind in kinds}
    return named | {f"{language} to {other}": _crosses_languages(language, other) for language, other in crossings}


def _has_kind(language: str | None, kind: str | None) -> Callable[[Case], bool]:
    return lambda case: (language is None or case.language == language) and (kind is None or case.kind == kind)


def _crosses_languages(language: str, other: str) -> Callable[[Case], bool]:
    return lambda case: case.language == language and case.crosses_to == other


def build_figure(search: Floats, bm25: Floats) -> Figure:
    """Compare two lists of values, without the cases that the measure does not apply to."""
    applies = ~np.isnan(search)
    search, bm25 = search[applies], bm25[applies]
    return Figure(estimate_mean(search), estimate_mean(bm25), estimate_mean(search - bm25))


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
