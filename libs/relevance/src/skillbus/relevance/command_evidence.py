"""Evidence that a command of a device does what a phrase asks for, as log-odds.

    evidence = dense · logit(cosine) + lexical · BM25 / rarest_idf(N) + offset
               + fulfilled, if the command does all that the phrase says; twice, if that is an action and nothing else
               − contrary, if one contradicts the other
               − elsewhere, if they are about different things

The formula is that of tools (`score`), with words that include meanings (`command_text`). An opposite is near in every
vector space, and shares most words: 打开窗帘, 关闭窗帘. So a contradiction, which the lexicon knows, counts by itself.
A bare action (启动) is a frequent word of a library, so that it is fulfilled counts by itself too.
Fitted by benchmarks/fitting/command_ranking.py on the dev library; docs/commands.md has the figures.
"""

from dataclasses import dataclass
from typing import Final

from skillbus.relevance.household.meaning import Meaning
from skillbus.relevance.score import EvidenceParts, Relevance, compute_rarest_idf

DENSE: Final = 0.548
"""Factor on the dense weight of the model's map for tools."""
LEXICAL: Final = 1.36
OFFSET: Final = -1.56
ALONE_POWER: Final = 3.47
ALONE_HALF: Final = 1.74
FULFILLED: Final = 1.51
CONTRARY: Final = 5.57
ELSEWHERE: Final = 2.0
"""The fit says 4: the lexicon may miss a topic of a description, so it counts half."""
_NEAREST: Final = 0.99
"""Cosines are clamped to [1 - _NEAREST, _NEAREST], as for knowledge."""


@dataclass(frozen=True, slots=True)
class CommandRelevance:
    """Map of one model for a library of commands."""

    of_model: Relevance
    """The model's map for commands; see `derive_command_relevance`."""
    indexed: int
    """Number of points over which the store computes IDF."""

    def compute_evidence(self, cosine: float | None, bm25: float | None, asked: Meaning, done: Meaning) -> float:
        """Return the log-odds of a match; None stands for no dense vector, or no common word.

        `asked` is the meaning of the phrase, `done` that of the command.
        """
        return self.of_model.compute_evidence(*self._measure(cosine, bm25)) + compare_meanings(asked, done)

    def split_evidence(self, cosine: float | None, bm25: float | None) -> EvidenceParts:
        """Return the log-odds of each side, without those of the meanings."""
        return self.of_model.split_evidence(*self._measure(cosine, bm25))

    def _measure(self, cosine: float | None, bm25: float | None) -> tuple[float | None, float]:
        words = (bm25 or 0.0) / compute_rarest_idf(self.indexed)
        return None if cosine is None else min(max(cosine, 1.0 - _NEAREST), _NEAREST), words


def compare_meanings(asked: Meaning, done: Meaning) -> float:
    """Return the log-odds that the meanings of a phrase and of a command add to their likeness."""
    evidence = -ELSEWHERE if asked.is_elsewhere(done) else 0.0
    if asked.contradicts(done):
        return evidence - CONTRARY
    if asked.is_fulfilled_by(done):
        return evidence + (FULFILLED if asked.topics else 2.0 * FULFILLED)
    return evidence


def derive_command_relevance(of_tools: Relevance) -> Relevance:
    """Derive a model's map for commands from its map for tools."""
    return Relevance(
        dense=DENSE * of_tools.dense,
        lexical=LEXICAL,
        offset=OFFSET + DENSE * of_tools.offset,
        lexical_alone_power=ALONE_POWER,
        lexical_alone_half=ALONE_HALF,
    )
