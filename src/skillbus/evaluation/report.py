"""What a measurement found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from skillbus.evaluation.cases import SEED, Case, Cases
from skillbus.evaluation.measures import RESAMPLES, Estimate, Floats, Measure, estimated, measured

Ids = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of some requests."""

    search: Estimate
    bm25: Estimate
    difference: Estimate
    """`search` less `bm25`, each request compared with itself."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Requests of a kind."""

    name: str
    queries: int
    figures: dict[Measure, Figure]


@dataclass(frozen=True, slots=True)
class Abstention:
    """What the default threshold does."""

    no_match: int
    """Requests that no tool fits."""
    answered_with_nothing: Estimate | None
    """Share of them; None if there are none."""
    bm25_answered_with_nothing: Estimate | None
    """The same of words alone, which answer nothing where no word is shared."""
    recall_at_5_lost: Estimate | None
    """What it costs the requests that some tool fits."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Ids of tools, best first, for each case."""

    nearest: Ids
    """Without a threshold."""
    default: Ids
    """At the threshold that search has when none is given."""
    bm25: Ids
    degraded: int
    """Requests that were answered by words alone for want of a vector."""
    model: str | None
    import_s: float
    ask_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures. Slices are without requests that nothing fits, and are asked without a threshold."""

    tools: int
    queries: int
    model: str | None
    degraded: int
    slices: tuple[Slice, ...]
    abstention: Abstention
    import_s: float
    ask_s: float

    def document(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self), "seed": SEED, "resamples": RESAMPLES}


def report_of(cases: Cases, answers: Answers) -> Report:
    """All figures of these answers."""
    return Report(
        tools=len(cases.tools),
        queries=len(cases.cases),
        model=answers.model,
        degraded=answers.degraded,
        slices=tuple(_slices(cases.cases, answers)),
        abstention=_abstention(cases.cases, answers),
        import_s=round(answers.import_s, 2),
        ask_s=round(answers.ask_s, 2),
    )


def _slices(cases: Sequence[Case], answers: Answers) -> Iterator[Slice]:
    search, bm25 = measured(answers.nearest, cases), measured(answers.bm25, cases)
    for name, belongs in _names(cases).items():
        rows = np.array([bool(case.wants) and belongs(case) for case in cases], dtype=np.bool_)
        if rows.any():
            pairs = {measure: (search[measure][rows], bm25[measure][rows]) for measure in Measure}
            figures = {measure: figure_of(*pair) for measure, pair in pairs.items() if not np.isnan(pair[0]).all()}
            yield Slice(name, int(rows.sum()), figures)


def _names(cases: Sequence[Case]) -> dict[str, Callable[[Case], bool]]:
    """All, by language, by kind, by both, and those whose tools are in another language."""
    languages = sorted({case.language for case in cases})
    kinds = sorted({case.kind for case in cases})
    crossings = sorted({(case.language, case.crosses_to) for case in cases if case.crosses_to is not None})
    named: dict[str, Callable[[Case], bool]] = {"all": lambda _: True}
    for language in languages:
        named[language] = _is(language, None)
    for kind in kinds:
        named[kind] = _is(None, kind)
    for language in languages:
        named |= {f"{language}, {kind}": _is(language, kind) for kind in kinds}
    return named | {f"{language} to {other}": _crosses(language, other) for language, other in crossings}


def _is(language: str | None, kind: str | None) -> Callable[[Case], bool]:
    return lambda case: (language is None or case.language == language) and (kind is None or case.kind == kind)


def _crosses(language: str, other: str) -> Callable[[Case], bool]:
    return lambda case: case.language == language and case.crosses_to == other


def figure_of(search: Floats, bm25: Floats) -> Figure:
    """Of those that a measure says something of."""
    told = ~np.isnan(search)
    search, bm25 = search[told], bm25[told]
    return Figure(estimated(search), estimated(bm25), estimated(search - bm25))


def _abstention(cases: Sequence[Case], answers: Answers) -> Abstention:
    nothing = [row for row, case in enumerate(cases) if not case.wants]
    recalls = [measured(ids, cases)[Measure.RECALL_AT_5] for ids in (answers.nearest, answers.default)]
    lost = recalls[0] - recalls[1]
    return Abstention(
        no_match=len(nothing),
        answered_with_nothing=_empty(answers.default, nothing),
        bm25_answered_with_nothing=_empty(answers.bm25, nothing),
        recall_at_5_lost=None if np.isnan(lost).all() else estimated(lost[~np.isnan(lost)]),
    )


def _empty(answers: Ids, rows: Sequence[int]) -> Estimate | None:
    return estimated(np.array([float(not answers[row]) for row in rows])) if rows else None
