"""Fits a model's numbers in `skillbus.relevance.score`: slope, lexical, offset.

1. The weights of logit(cosine) and of words, by listwise softmax over each query's candidates.
2. Slope and offset of the log-odds, by logistic regression on requests for one tool (if several are needed, each is
   only partly relevant). Relevant tools are set against as many others: half drawn at random, half from the candidates
   of the search. Random tools alone would make every second tool of a topic "relevant"; candidates alone
   include many relevant tools that nobody judged.

Every source of queries has equal weight. The score of words alone, without a cosine, is the same for every model and is
not fitted here.

Both steps add `PRIOR_QUERIES` queries answered by the neutral map (a catalytic prior: Huang, Stein, Rubin, Kou, PNAS
117, 2020): the truth of each pair is mixed with the neutral map's score. With few queries the numbers stay near the
neutral ones, and are always finite; with thousands the truth dominates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skillbus.calibration.bm25 import Floats
from skillbus.calibration.errors import NoSignalError, TooLittleError
from skillbus.calibration.judged import Bools, Judged
from skillbus.calibration.pairs import Pairs, Survey
from skillbus.contracts.embedder.registry import Calibration
from skillbus.relevance.score import NEUTRAL

TOOLS_MIN: Final = 10
QUERIES_MIN: Final = 10
PRIOR_QUERIES: Final = 10
_NEUTRAL_WEIGHTS: Final = (NEUTRAL.dense, NEUTRAL.lexical)
_ONE_SIDED_95: Final = 1.645


@dataclass(frozen=True, slots=True, eq=False)
class PairGroup:
    """Pairs that are all relevant or all irrelevant, for the logistic regression."""

    pairs: Pairs
    evidence: Floats
    fits: bool
    share: float
    """Share of the total weight."""


def check_enough(judged: Judged) -> None:
    """Check the number of tools and queries, before anything is embedded.

    Raises:
        TooLittleError: there are fewer tools or queries than a fit needs.
    """
    if len(judged.tools) < TOOLS_MIN:
        raise TooLittleError("tools", len(judged.tools), TOOLS_MIN)
    found = int(judged.for_one_tool.sum())
    if found < QUERIES_MIN:
        raise TooLittleError("requests that one tool fits", found, QUERIES_MIN)


def fit_calibration(judged: Judged, pairs: Survey) -> Calibration:
    """Fit the map of the model that gave these cosines.

    Raises:
        TooLittleError: see `check_enough`; or every tool is relevant to every query.
        NoSignalError: cosines of relevant tools are no higher than those of others.
    """
    check_enough(judged)
    if not len(pairs.random.query):
        raise TooLittleError("tools that do not fit some request", 0, 1)
    _check_signal(pairs)
    weights = fit_listwise(judged, pairs.candidates, judged.answerable)
    slope, offset = _fit_log_odds(judged, pairs, weights)
    if weights[0] <= 0 or slope <= 0:
        raise NoSignalError("tools with a higher cosine are relevant less often than others with as many common words")
    return Calibration(slope=slope * weights[0], lexical=slope * weights[1], offset=offset)


def fit_listwise(judged: Judged, pairs: Pairs, queries: Bools) -> Floats:
    """Fit weights of logit(cosine) and of words, so that the softmax over candidates favours relevant tools.

    The weight of words is never negative.
    """
    features = np.stack([compute_logits(pairs.cosine), pairs.words], axis=1)
    weights = _fit_weights(judged, pairs, features, queries)
    if weights[1] >= 0:
        return weights
    return np.array([*_fit_weights(judged, pairs, features[:, :1], queries), 0.0])


def _fit_weights(judged: Judged, pairs: Pairs, features: Floats, queries: Bools) -> Floats:
    neutral, start = np.array(_NEUTRAL_WEIGHTS[: features.shape[1]]), pairs.start
    found = np.add.reduceat(pairs.relevant.astype(float), start)
    queries = queries & (found > 0)
    share = _weigh_queries(judged.sources, queries)
    row_share = share[pairs.query]
    truth = pairs.relevant / np.maximum(found, 1)[pairs.query]
    target = _mix_prior(truth, _compute_softmax(features @ neutral, pairs.query, start), int(queries.sum()))

    def loss(weights: Floats) -> tuple[float, Floats, Floats]:
        chance = _compute_softmax(features @ weights, pairs.query, start)
        value = -float((row_share * target * np.log(np.maximum(chance, 1e-300))).sum())
        mean = np.add.reduceat(features * chance[:, None], start)
        hessian = features.T @ (features * (chance * row_share)[:, None]) - mean.T @ (mean * share[:, None])
        return value, features.T @ ((chance - target) * row_share), hessian

    return minimise(loss, neutral)


def _fit_log_odds(judged: Judged, pairs: Survey, weights: Floats) -> tuple[float, float]:
    """Return the factor of both weights, and the offset."""
    near = pairs.candidates.select_rows(~pairs.candidates.relevant & judged.for_one_tool[pairs.candidates.query])
    columns = ((pairs.right, True, 0.5), (pairs.random, False, 0.25), (near, False, 0.25))
    groups = [
        PairGroup(found, weights[0] * compute_logits(found.cosine) + weights[1] * found.words, fits, share)
        for found, fits, share in columns
    ]
    cosines = np.concatenate([found.cosine for found, _, _ in columns])
    words = np.concatenate([found.words for found, _, _ in columns])
    neutral = NEUTRAL.dense * compute_logits(cosines) + NEUTRAL.lexical * words + NEUTRAL.offset
    return fit_logistic(judged, groups, _compute_probabilities(neutral))


def fit_logistic(judged: Judged, groups: Sequence[PairGroup], prior: Floats | None = None) -> tuple[float, float]:
    """Fit slope and offset of P(relevant | evidence). `prior` holds each pair's probability under the prior map."""
    evidence = np.concatenate([group.evidence for group in groups])
    centre, scale = evidence.mean(), max(float(evidence.std()), 1e-9)
    design = np.stack([(evidence - centre) / scale, np.ones_like(evidence)], axis=1)
    weight = np.concatenate([group.share * _weigh_pairs(judged.sources, group.pairs) for group in groups])
    target = np.concatenate([np.full(len(group.evidence), float(group.fits)) for group in groups])
    if prior is not None:
        target = _mix_prior(target, prior, int(judged.for_one_tool.sum()))

    def loss(line: Floats) -> tuple[float, Floats, Floats]:
        odds = design @ line
        chance = _compute_probabilities(odds)
        value = float((weight * (np.logaddexp(0, odds) - target * odds)).sum())
        hessian = (design * (weight * chance * (1 - chance))[:, None]).T @ design
        return value, design.T @ (weight * (chance - target)), hessian

    slope, level = minimise(loss, np.zeros(2))
    return float(slope / scale), float(level - slope * centre / scale)


def compute_logits(cosine: Floats) -> Floats:
    """Return log-odds of cosines, clipped away from 0 and 1."""
    near = np.clip(cosine, 0.01, 0.999)
    return np.log(near) - np.log(1 - near)


def _mix_prior(truth: Floats, neutral: Floats, queries: int) -> Floats:
    share = PRIOR_QUERIES / (queries + PRIOR_QUERIES)
    return (1 - share) * truth + share * neutral


def _compute_softmax(scores: Floats, query: NDArray[np.int64], start: NDArray[np.int64]) -> Floats:
    odds = np.exp(scores - np.maximum.reduceat(scores, start)[query])
    chance: Floats = odds / np.add.reduceat(odds, start)[query]
    return chance


def _compute_probabilities(odds: Floats) -> Floats:
    chance: Floats = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
    return chance


def _weigh_queries(sources: NDArray[np.str_], queries: Bools) -> Floats:
    """Return a weight per query, 0 outside `queries`. All sources have the same sum, and the total is 1."""
    weights = np.zeros(len(queries))
    for source in set(sources[queries].tolist()):
        chosen = queries & (sources == source)
        weights[chosen] = 1 / chosen.sum()
    return weights / max(float(weights.sum()), 1.0)


def _weigh_pairs(sources: NDArray[np.str_], pairs: Pairs) -> Floats:
    """Return a weight per pair. All sources have the same sum, and the total is 1."""
    names, inverse, counts = np.unique(sources[pairs.query], return_inverse=True, return_counts=True)
    return 1 / counts[inverse] / len(names)


def _check_signal(pairs: Survey) -> None:
    """Check that cosines of relevant pairs exceed those of random pairs more often than by chance.

    Raises:
        NoSignalError: they do not.
    """
    shares = []  # for each query, of the random tools that are farther than relevant ones; ties count half
    for query in np.intersect1d(pairs.right.query, pairs.random.query).tolist():
        right = pairs.right.cosine[pairs.right.query == query][:, None]
        random = pairs.random.cosine[pairs.random.query == query][None, :]
        shares.append(float(((right > random) + 0.5 * (right == random)).mean()))
    above = np.array(shares)
    error = max(float(above.std()), 0.1) / np.sqrt(len(above))
    if above.mean() <= 0.5 + _ONE_SIDED_95 * error:
        raise NoSignalError(f"a relevant tool is nearer than a random one in only {above.mean():.0%} of cases")


Convex = Callable[[Floats], tuple[float, Floats, Floats]]
"""Function that returns value, gradient and Hessian at a point."""

_STEPS: Final = 100
_HALVINGS: Final = 40
_JITTER: Final = 1e-9  # keeps the Hessian solvable where the function is flat


def minimise(function: Convex, start: Floats) -> Floats:
    """Minimise a convex function with Newton's method. A step that does not descend is halved."""
    point, (value, gradient, hessian) = start, function(start)
    for _ in range(_STEPS):
        step = np.linalg.solve(hessian + _JITTER * np.eye(len(point)), gradient)
        for halving in range(_HALVINGS):
            nearer = point - step * 0.5**halving
            found = function(nearer)
            if found[0] < value:
                break
        else:
            return point
        point, (value, gradient, hessian) = nearer, found
    return point
