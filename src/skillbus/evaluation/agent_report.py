"""Report of an evaluation of the tools that a chat is shown before its first step."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from skillbus.evaluation.cases import SEED, Case, Cases
from skillbus.evaluation.measures import DEPTH, RESAMPLES, Floats
from skillbus.evaluation.report import Slice, build_slices, select_rows


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """Tools of each case, as ids."""

    shown: Sequence[Sequence[str]]
    """Those shown before the first step, best first."""
    called: Sequence[Sequence[str]]
    """Those that the scripted model called."""
    bm25: Sequence[Sequence[str]]
    import_s: float
    ask_s: float


class AgentMeasure(StrEnum):
    """Measures of one turn, from 0 to 1. Reports show the mean over turns."""

    HIT_AT_10 = "hit_at_10"
    """1 if a right tool is among those shown before the first step."""
    RECALL_AT_10 = "recall_at_10"
    """Share of the wants that the shown tools meet."""
    CALLED = "called"
    """Share of the wants that the calls of a model meet that chooses the right ones of what it is shown."""


@dataclass(frozen=True, slots=True)
class AgentTurnsReport:
    """All figures. Slices omit requests without a relevant tool."""

    tools: int
    queries: int
    slices: tuple[Slice[AgentMeasure], ...]
    import_s: float
    ask_s: float

    def document(self) -> dict[str, object]:
        return {**asdict(self), "seed": SEED, "resamples": RESAMPLES}


def build_agent_report(cases: Cases, answers: AgentAnswers) -> AgentTurnsReport:
    turns = _measure(answers.shown, answers.called, cases.cases)
    bm25 = _measure(answers.bm25, answers.bm25, cases.cases)
    return AgentTurnsReport(
        tools=len(cases.tools),
        queries=len(cases.cases),
        slices=tuple(build_slices(turns, bm25, select_rows(cases.cases))),
        import_s=round(answers.import_s, 2),
        ask_s=round(answers.ask_s, 2),
    )


def _measure(
    shown: Sequence[Sequence[str]], called: Sequence[Sequence[str]], cases: Sequence[Case]
) -> dict[AgentMeasure, Floats]:
    """Return one number per case, NaN for cases without a right tool."""
    rows = [(one[:DEPTH], other, case) for one, other, case in zip(shown, called, cases, strict=True)]
    figures = {
        AgentMeasure.HIT_AT_10: [float(_share_met(one, case) > 0) if case.wants else math.nan for one, _, case in rows],
        AgentMeasure.RECALL_AT_10: [_share_met(one, case) for one, _, case in rows],
        AgentMeasure.CALLED: [_share_met(other[:DEPTH], case) for _, other, case in rows],
    }
    return {measure: np.array(values, dtype=np.float64) for measure, values in figures.items()}


def _share_met(tools: Sequence[str], case: Case) -> float:
    """Return the share of the wants of which one of the tools is one."""
    if not case.wants:
        return math.nan
    return sum(not want.isdisjoint(tools) for want in case.wants) / len(case.wants)
