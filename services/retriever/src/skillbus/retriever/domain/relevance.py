"""How well a tool fits a request: one number from 0 to 1 out of a cosine and a BM25 score.

    evidence = dense · logit(cosine) + lexical · BM25 / rarest_idf(N) + offset
    score    = 1 / (1 + e^-evidence)

Without lexical evidence this is beta calibration with a = b (Kull, Silva Filho, Flach: "Beta calibration", AISTATS
2017): a monotone map of the cosine with 0 at 0 and 1 at 1. Lexical evidence adds log-odds. Nothing in it depends on
the other candidates, so that a `threshold` means the same for every query. BM25 is counted in words that only one tool
has (`rarest_idf`), so that it means the same in a catalogue of three tools as in one of ten thousand.
"""

import math
from dataclasses import dataclass, replace

from skillbus.contracts.embedder.registry import Calibration

_LEAST_COSINE = 0.1  # what a cosine counts for beside a word that only this tool has: words outweigh a blind model


@dataclass(frozen=True, slots=True)
class Relevance:
    """The map of one model. All weights are positive: more of either evidence never lowers the score."""

    dense: float
    """Log-odds for a unit of logit(cosine)."""
    lexical: float
    """Log-odds for a word that only this tool has, said once in a text of mean length."""
    offset: float
    lexical_alone_power: float
    lexical_alone_half: float
    """Without a cosine the score is x^power / (x^power + half^power), x the BM25 in rarest words."""

    def evidence(self, cosine: float | None, words: float) -> float:
        """Log-odds of fitting, from -inf to inf; what hits are ordered by, as scores near 1 round to the same number.

        `cosine` is None where no dense vector could be had. `words` is BM25 / `rarest_idf`, 0 where no word is shared.
        """
        if cosine is None:
            return self.lexical_alone_power * (_ln(words) - math.log(self.lexical_alone_half))
        near = min(1.0, max(cosine, _LEAST_COSINE * min(1.0, words)))
        return self.dense * (_ln(near) - _ln(1.0 - near)) + self.lexical * words + self.offset

    def score(self, cosine: float | None, words: float) -> float:
        return probability(self.evidence(cosine, words))


NEUTRAL = Relevance(dense=1.0, lexical=1.0, offset=0.0, lexical_alone_power=3.135, lexical_alone_half=1.053)
"""For a model that nobody fitted: the score is the cosine, and words weigh beside it as for the default model.

Words alone: fitted by benchmarks/fit_relevance.py on the dev tools on 2026-11-22, as they are for every model.
"""


def relevance_of(calibration: Calibration | None) -> Relevance:
    """The map that the embedder gives with a model's vectors; neutral without one."""
    if calibration is None:
        return NEUTRAL
    return replace(NEUTRAL, dense=calibration.slope, lexical=calibration.lexical, offset=calibration.offset)


def rarest_idf(catalogue_size: int) -> float:
    """IDF of a word that one tool has, as Qdrant counts it: ln(1 + (N - n + 0.5) / (n + 0.5)) at n = 1."""
    return math.log(1.0 + (max(1, catalogue_size) - 0.5) / 1.5)


def probability(log_odds: float) -> float:
    if log_odds >= 0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    odds = math.exp(log_odds)
    return odds / (1.0 + odds)


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
