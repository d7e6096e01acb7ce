"""What a map does to the judged pairs."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from skillbus.calibration.bm25 import Floats
from skillbus.calibration.judged import Judged
from skillbus.calibration.pairs import Pairs, Survey
from skillbus.contracts.embedder.registry import Calibration
from skillbus.relevance.score import Relevance, build_relevance

COSINES: Final = (0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True, slots=True)
class Effect:
    """On the pairs that a map was fitted to, if it was: what new requests show is a little worse."""

    scores: tuple[float, ...]
    """At each of `COSINES`, where no word is shared."""
    auc: float
    """How often a tool that fits scores higher than one of the candidates that do not, over all queries for one tool:
    whether one threshold does for all of them."""
    right_above_half: float
    """Share of the tools that fit that score 0.5 or more."""
    random_above_half: float
    """The same of tools drawn at random of those that do not fit."""


def effect_of(calibration: Calibration | None, judged: Judged, pairs: Survey) -> Effect:
    """Of the neutral map if there is no calibration."""
    relevance = build_relevance(calibration)
    near = pairs.candidates.where(~pairs.candidates.relevant & judged.for_one_tool[pairs.candidates.query])
    right = _evidence(relevance, pairs.right)
    return Effect(
        scores=tuple(relevance.compute_score(cosine, 0.0) for cosine in COSINES),
        auc=_auc(right, _evidence(relevance, near)),
        right_above_half=float((right >= 0).mean()),
        random_above_half=float((_evidence(relevance, pairs.random) >= 0).mean()),
    )


def _evidence(relevance: Relevance, pairs: Pairs) -> Floats:
    """Log-odds: 0 is a score of one half."""
    columns = zip(pairs.cosine.tolist(), pairs.words.tolist(), strict=True)
    return np.array([relevance.compute_evidence(cosine, words) for cosine, words in columns])


def _auc(right: Floats, wrong: Floats) -> float:
    """The share of pairs of both in which the first is higher; half for equals."""
    if not len(wrong):
        return 1.0
    ordered = np.sort(wrong)
    below = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(below.mean() / 2 / len(wrong))
