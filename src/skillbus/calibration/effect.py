"""Effect of a map on the judged pairs."""

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
    """Figures on the pairs that the map was fitted to, if it was. On new requests they are slightly worse."""

    scores: tuple[float, ...]
    """Scores at each of `COSINES` without a common word."""
    auc: float
    """Share of pairs of a relevant tool and another candidate in which the relevant one scores higher, over all queries
    for one tool. It shows if one threshold suits all of them."""
    right_above_half: float
    """Share of relevant tools that score 0.5 or more."""
    random_above_half: float
    """The same share of irrelevant tools drawn at random."""


def measure_effect(calibration: Calibration | None, judged: Judged, pairs: Survey) -> Effect:
    """Measure the effect of a calibration; None is the neutral map."""
    relevance = build_relevance(calibration)
    near = pairs.candidates.select_rows(~pairs.candidates.relevant & judged.for_one_tool[pairs.candidates.query])
    right = _compute_evidence(relevance, pairs.right)
    return Effect(
        scores=tuple(relevance.compute_score(cosine, 0.0) for cosine in COSINES),
        auc=_compute_auc(right, _compute_evidence(relevance, near)),
        right_above_half=float((right >= 0).mean()),
        random_above_half=float((_compute_evidence(relevance, pairs.random) >= 0).mean()),
    )


def _compute_evidence(relevance: Relevance, pairs: Pairs) -> Floats:
    """Return log-odds: 0 is a score of one half."""
    columns = zip(pairs.cosine.tolist(), pairs.words.tolist(), strict=True)
    return np.array([relevance.compute_evidence(cosine, words) for cosine, words in columns])


def _compute_auc(right: Floats, wrong: Floats) -> float:
    """Return the share of pairs in which `right` is higher; ties count half."""
    if not len(wrong):
        return 1.0
    ordered = np.sort(wrong)
    below = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(below.mean() / 2 / len(wrong))
