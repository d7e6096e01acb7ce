"""Relevance score of a tool for a request, from 0 to 1, computed from a cosine and a BM25 score.

    evidence = dense · logit(cosine) + lexical · BM25 / rarest_idf(N) + offset
    score    = 1 / (1 + e^-evidence)

Without lexical evidence this is beta calibration with a = b (Kull, Silva Filho, Flach: "Beta calibration", AISTATS
2017): a monotone map of the cosine with 0 at 0 and 1 at 1. Lexical evidence adds log-odds. The score does not depend on
the other candidates, so a `threshold` means the same for every query. BM25 is measured in units of a word that only one
tool has (`compute_rarest_idf`), so it means the same in a catalogue of three tools as in one of ten thousand.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from skillbus.contracts.embedder.registry import Calibration

_MANY: Final = 1_500
"""Number of entries above which `compute_least_evidence` no longer grows: the best wrong hit hardly improves."""
_GROWTH: Final = 0.5
_LEAST_COSINE = 0.1  # lower bound of the cosine of a tool with a unique matching word: words outweigh a blind model


class EvidenceParts(NamedTuple):
    """Log-odds that each side of a search gives. Their sum is the evidence."""

    dense: float | None
    """None without a cosine."""
    lexical: float
    offset: float


@dataclass(frozen=True, slots=True)
class Relevance:
    """Map of one model. All weights are positive: more evidence of either kind never lowers the score."""

    dense: float
    """Log-odds per unit of logit(cosine)."""
    lexical: float
    """Log-odds for a word that only this tool has, occurring once in a text of mean length."""
    offset: float
    lexical_alone_power: float
    lexical_alone_half: float
    """Without a cosine the score is x^power / (x^power + half^power), x being the BM25 in rarest words."""

    def compute_evidence(self, cosine: float | None, words: float) -> float:
        """Return the log-odds of a match, from -inf to inf. Hits are ordered by it: scores near 1 round to one number.

        `cosine` is None without a dense vector; `words` is BM25 / `compute_rarest_idf`, 0 without a common word.
        """
        dense, lexical, offset = self.split_evidence(cosine, words)
        return lexical if dense is None else dense + lexical + offset

    def split_evidence(self, cosine: float | None, words: float) -> EvidenceParts:
        """Return the log-odds of each side. Words alone have a map of their own, without an offset."""
        if cosine is None:
            alone = self.lexical_alone_power * (_ln(words) - math.log(self.lexical_alone_half))
            return EvidenceParts(None, alone, 0.0)
        near = min(1.0, max(cosine, _LEAST_COSINE * min(1.0, words)))
        return EvidenceParts(self.dense * (_ln(near) - _ln(1.0 - near)), self.lexical * words, self.offset)

    def compute_score(self, cosine: float | None, words: float) -> float:
        return compute_probability(self.compute_evidence(cosine, words))


NEUTRAL = Relevance(dense=1.0, lexical=1.0, offset=0.0, lexical_alone_power=3.135, lexical_alone_half=1.053)
"""Map of a model without calibration: the score is the cosine, and words weigh as for the default model.

The lexical-alone part was fitted by benchmarks/fitting/fit_relevance.py on the dev tools on 2026-11-22; all models
share it.
"""


_FITTED: Final[Mapping[str, Calibration]] = {
    "all-MiniLM-L6-v2": Calibration(slope=0.590, lexical=1.790, offset=-1.204),
    "multilingual-e5-small": Calibration(slope=1.761, lexical=1.176, offset=0.616),
    "use-multilingual-v3": Calibration(slope=1.333, lexical=1.305, offset=0.108),
}
"""Fitted maps from cosine to score for the models that skillbus ships. A model's own record takes precedence.

Fitted by benchmarks/fitting/fit_relevance.py on the dev tools, 2026-11-22; results are in benchmarks/results.
"""


def find_calibration(model: str) -> Calibration | None:
    """Return the map fitted for the model of this name, or None."""
    return _FITTED.get(model)


def build_relevance(calibration: Calibration | None) -> Relevance:
    """Build the map from a model's calibration; None gives the neutral map."""
    if calibration is None:
        return NEUTRAL
    return replace(NEUTRAL, dense=calibration.slope, lexical=calibration.lexical, offset=calibration.offset)


def compute_rarest_idf(catalogue_size: int) -> float:
    """Return the IDF of a word that one tool has, with Qdrant's formula: ln(1 + (N - n + 0.5) / (n + 0.5)) at n = 1."""
    return math.log(1.0 + (max(1, catalogue_size) - 0.5) / 1.5)


def compute_probability(log_odds: float) -> float:
    if log_odds >= 0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    odds = math.exp(log_odds)
    return odds / (1.0 + odds)


def compute_least_evidence(fits: float, entries: int) -> float:
    """Return the log-odds that the best of `entries` must reach where a request names no threshold.

    `fits` is the score among many entries, below 1. The best of many entries that do not fit scores higher than the
    best of few, so the bound grows with their number. Of 20 requests that nothing fits, 85 % stay below these log-odds
    (12 catalogues of each size drawn from the dev tools; 2026-11-22):

        tools     5     10     25     50    100    300   1,000  3,000  5,511
        log-odds  -2.8  -2.6   -2.2   -1.7  -1.5   -.8   -.2    -.1    .1
    """
    if fits <= 0.0:
        return -math.inf
    among_many = math.log(fits / (1.0 - fits)) if fits < 1.0 else math.inf
    return among_many + _GROWTH * math.log(min(1.0, max(1, entries) / _MANY))


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
