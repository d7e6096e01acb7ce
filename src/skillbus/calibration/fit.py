"""The numbers of a model in `skillbus.relevance.score`: slope, lexical, offset.

1. The weights of logit(cosine) and of words, by listwise softmax over each query's candidates.
2. Slope and offset of the log-odds, by logistic regression on requests for one tool (of several wanted, each fits only
   in part): tools that fit against as many that do not, half of these drawn from the catalogue at random, half from the
   candidates of the search. Random tools alone make every second tool of a topic "relevant"; candidates alone hold many
   that fit and were not judged.

Every source of queries weighs the same. What words alone say, without a cosine, is the same for every model and is not
fitted here.

In both steps `PRIOR_QUERIES` queries are added that the neutral map answered (a catalytic prior: Huang, Stein, Rubin,
Kou, PNAS 117, 2020): the truth of each pair is mixed with what the neutral map says of it. Of few queries the numbers
stay near the neutral ones and are finite whatever was judged; of thousands the truth decides alone.
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
class Group:
    """Pairs that all fit or all do not, for the logistic regression."""

    pairs: Pairs
    evidence: Floats
    fits: bool
    share: float
    """Of the weight of all groups."""


def check_enough(judged: Judged) -> None:
    """Before anything is embedded.

    Raises:
        TooLittleError: there are fewer tools or queries than a fit needs.
    """
    if len(judged.tools) < TOOLS_MIN:
        raise TooLittleError("tools", len(judged.tools), TOOLS_MIN)
    found = int(judged.for_one_tool.sum())
    if found < QUERIES_MIN:
        raise TooLittleError("requests that one tool fits", found, QUERIES_MIN)


def fitted(judged: Judged, pairs: Survey) -> Calibration:
    """The map of the model whose cosines these are.

    Raises:
        TooLittleError: as `check_enough`; or no tool is wrong for any query.
        NoSignalError: cosines of tools that fit are no higher than those of others.
    """
    check_enough(judged)
    if not len(pairs.random.query):
        raise TooLittleError("tools that do not fit some request", 0, 1)
    _check_signal(pairs)
    weights = listwise(judged, pairs.candidates, judged.answerable)
    slope, offset = _log_odds(judged, pairs, weights)
    if weights[0] <= 0 or slope <= 0:
        raise NoSignalError("tools with a higher cosine fit less often than others that share as many words")
    return Calibration(slope=slope * weights[0], lexical=slope * weights[1], offset=offset)


def listwise(judged: Judged, pairs: Pairs, queries: Bools) -> Floats:
    """Weights of logit(cosine) and of words that make the softmax over a query's candidates fall on what fits.

    Words never weigh less than nothing.
    """
    features = np.stack([logit(pairs.cosine), pairs.words], axis=1)
    weights = _listwise(judged, pairs, features, queries)
    if weights[1] >= 0:
        return weights
    return np.array([*_listwise(judged, pairs, features[:, :1], queries), 0.0])


def _listwise(judged: Judged, pairs: Pairs, features: Floats, queries: Bools) -> Floats:
    neutral, start = np.array(_NEUTRAL_WEIGHTS[: features.shape[1]]), pairs.start
    found = np.add.reduceat(pairs.relevant.astype(float), start)
    queries = queries & (found > 0)
    share = _by_source(judged.sources, queries)
    row_share = share[pairs.query]
    truth = pairs.relevant / np.maximum(found, 1)[pairs.query]
    target = _mixed(truth, _softmax(features @ neutral, pairs.query, start), int(queries.sum()))

    def loss(weights: Floats) -> tuple[float, Floats, Floats]:
        chance = _softmax(features @ weights, pairs.query, start)
        value = -float((row_share * target * np.log(np.maximum(chance, 1e-300))).sum())
        mean = np.add.reduceat(features * chance[:, None], start)
        hessian = features.T @ (features * (chance * row_share)[:, None]) - mean.T @ (mean * share[:, None])
        return value, features.T @ ((chance - target) * row_share), hessian

    return minimum(loss, neutral)


def _log_odds(judged: Judged, pairs: Survey, weights: Floats) -> tuple[float, float]:
    """What to multiply both weights by, and the offset."""
    near = pairs.candidates.where(~pairs.candidates.relevant & judged.for_one_tool[pairs.candidates.query])
    columns = ((pairs.right, True, 0.5), (pairs.random, False, 0.25), (near, False, 0.25))
    groups = [
        Group(found, weights[0] * logit(found.cosine) + weights[1] * found.words, fits, share)
        for found, fits, share in columns
    ]
    cosines = np.concatenate([found.cosine for found, _, _ in columns])
    words = np.concatenate([found.words for found, _, _ in columns])
    neutral = NEUTRAL.dense * logit(cosines) + NEUTRAL.lexical * words + NEUTRAL.offset
    return logistic(judged, groups, _probability(neutral))


def logistic(judged: Judged, groups: Sequence[Group], prior: Floats | None = None) -> tuple[float, float]:
    """Slope and offset of P(fits | evidence); `prior` are the chances of all pairs by the map to lean towards."""
    evidence = np.concatenate([group.evidence for group in groups])
    centre, scale = evidence.mean(), max(float(evidence.std()), 1e-9)
    design = np.stack([(evidence - centre) / scale, np.ones_like(evidence)], axis=1)
    weight = np.concatenate([group.share * _spread(judged.sources, group.pairs) for group in groups])
    target = np.concatenate([np.full(len(group.evidence), float(group.fits)) for group in groups])
    if prior is not None:
        target = _mixed(target, prior, int(judged.for_one_tool.sum()))

    def loss(line: Floats) -> tuple[float, Floats, Floats]:
        odds = design @ line
        chance = _probability(odds)
        value = float((weight * (np.logaddexp(0, odds) - target * odds)).sum())
        hessian = (design * (weight * chance * (1 - chance))[:, None]).T @ design
        return value, design.T @ (weight * (chance - target)), hessian

    slope, level = minimum(loss, np.zeros(2))
    return float(slope / scale), float(level - slope * centre / scale)


def logit(cosine: Floats) -> Floats:
    """Log-odds, of cosines that are nearly 0, below it, or 1 too."""
    near = np.clip(cosine, 0.01, 0.999)
    return np.log(near) - np.log(1 - near)


def _mixed(truth: Floats, neutral: Floats, queries: int) -> Floats:
    share = PRIOR_QUERIES / (queries + PRIOR_QUERIES)
    return (1 - share) * truth + share * neutral


def _softmax(scores: Floats, query: NDArray[np.int64], start: NDArray[np.int64]) -> Floats:
    odds = np.exp(scores - np.maximum.reduceat(scores, start)[query])
    chance: Floats = odds / np.add.reduceat(odds, start)[query]
    return chance


def _probability(odds: Floats) -> Floats:
    chance: Floats = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
    return chance


def _by_source(sources: NDArray[np.str_], queries: Bools) -> Floats:
    """A weight for each query, 0 outside `queries`; those of a source sum to the same, all to 1."""
    weights = np.zeros(len(queries))
    for source in set(sources[queries].tolist()):
        chosen = queries & (sources == source)
        weights[chosen] = 1 / chosen.sum()
    return weights / max(float(weights.sum()), 1.0)


def _spread(sources: NDArray[np.str_], pairs: Pairs) -> Floats:
    """A weight for each pair, by its query: sources weigh the same, all sum to 1."""
    names, inverse, counts = np.unique(sources[pairs.query], return_inverse=True, return_counts=True)
    return 1 / counts[inverse] / len(names)


def _check_signal(pairs: Survey) -> None:
    """Cosines of right pairs are above those of random pairs of the same query more often than chance makes them."""
    above = np.array(_shares_above(pairs))
    error = max(float(above.std()), 0.1) / np.sqrt(len(above))
    if above.mean() <= 0.5 + _ONE_SIDED_95 * error:
        raise NoSignalError(f"a tool that fits is nearer than one drawn at random in {above.mean():.0%} of cases only")


def _shares_above(pairs: Survey) -> list[float]:
    """For each query, the share of random tools that are farther than those that fit; half for equals."""
    shares = []
    for query in np.intersect1d(pairs.right.query, pairs.random.query).tolist():
        right = pairs.right.cosine[pairs.right.query == query][:, None]
        random = pairs.random.cosine[pairs.random.query == query][None, :]
        shares.append(float(((right > random) + 0.5 * (right == random)).mean()))
    return shares


Convex = Callable[[Floats], tuple[float, Floats, Floats]]
"""Value, gradient and Hessian at a point."""

_STEPS: Final = 100
_HALVINGS: Final = 40
_JITTER: Final = 1e-9  # keeps the Hessian solvable where the function is flat


def minimum(function: Convex, start: Floats) -> Floats:
    """Newton's method; a step that does not descend is halved until it does."""
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
