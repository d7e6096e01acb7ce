"""Fits the numbers of `skillbus.retriever.domain.relevance` for the default model on judged tools.

1. The weights of logit(cosine) and of BM25, by listwise softmax over each query's candidates; every source of queries
   weighs the same. Each source is also ranked with weights fitted to the others only.
2. Slope and offset of the log-odds, by logistic regression on requests for one tool (of several wanted, each fits only
   in part): tools that fit against as many that do not, half of these drawn from the catalogue at random, half from the
   candidates of the search. Random tools alone make every second tool of a topic "relevant"; candidates alone hold many
   that fit and were not judged.
3. The same for BM25 alone.

    uv run python benchmarks/fit_relevance.py [--data DIR]
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from tool_search_lab import (
    DEFAULT_DATA,
    MODEL,
    RESULTS,
    Bools,
    Floats,
    Judged,
    Pairs,
    candidates,
    dense_scores,
    figures,
    lexical_evidence,
    lexical_scores,
    load,
    surroundings,
)

from skillbus.retriever.domain.relevance import rarest_idf

SEED = 7
RANDOM_TOOLS = 30  # drawn for each query
STEPS, RATE, RIDGE = 400, 0.05, 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    judged = load(parser.parse_args().data)
    cosine, bm25 = dense_scores(judged), lexical_scores(judged)
    pairs = candidates(judged, cosine, bm25)
    features = np.stack([logit(pairs.cosine), lexical_evidence(judged, pairs)], axis=1)
    everyone = judged.answerable
    weights = listwise(judged, pairs, features, everyone)
    whole = judged.for_one_tool()
    slope, offset = calibrated(whole, pairs, cosine, bm25, weights)
    power, shift = calibrated_alone(whole, pairs, bm25)
    report = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        **surroundings(SEED),
        "model": MODEL,
        "parameters": {
            "dense": slope * weights[0],
            "lexical": slope * weights[1],
            "offset": offset,
            "lexical_alone_power": power,
            "lexical_alone_half": float(np.exp(-shift / power)),
        },
        "leave_source_out": leave_source_out(judged, pairs, features),
    }
    text = json.dumps(rounded(report), ensure_ascii=False, indent=2)
    (RESULTS / "fit_relevance.json").write_text(text + "\n", "utf-8")
    print(text)


def logit(cosine: Floats) -> Floats:
    near = np.clip(cosine, 0.01, 0.999)
    return np.log(near) - np.log(1 - near)


def listwise(judged: Judged, pairs: Pairs, features: Floats, queries: Bools) -> Floats:
    """Weights that make the softmax over a query's candidates fall on what fits (Adam on its cross-entropy)."""
    found = np.add.reduceat(pairs.relevant.astype(float), pairs.start)
    queries = queries & (found > 0)
    share = by_source(judged, queries)[pairs.query]
    target = pairs.relevant / np.maximum(found, 1)[pairs.query]
    scale = features.std(axis=0)
    scaled, weights = features / scale, np.full(2, 0.5)
    momentum, variance = np.zeros(2), np.zeros(2)
    for step in range(1, STEPS + 1):
        gradient = scaled.T @ ((softmax(scaled @ weights, pairs) - target) * share) + RIDGE * weights
        momentum, variance = 0.9 * momentum + 0.1 * gradient, 0.99 * variance + 0.01 * gradient**2
        weights = weights - RATE * momentum / (1 - 0.9**step) / (np.sqrt(variance / (1 - 0.99**step)) + 1e-9)
    return weights / scale


def by_source(judged: Judged, queries: Bools) -> Floats:
    """A weight for each query, 0 outside `queries`; those of a source sum to the same, all to 1."""
    weights = np.zeros(len(queries))
    sources = judged.sources
    for source in set(sources[queries].tolist()):
        chosen = queries & (sources == source)
        weights[chosen] = 1 / chosen.sum()
    return weights / weights.sum()


def softmax(scores: Floats, pairs: Pairs) -> Floats:
    odds = np.exp(scores - np.maximum.reduceat(scores, pairs.start)[pairs.query])
    return odds / np.add.reduceat(odds, pairs.start)[pairs.query]


def leave_source_out(judged: Judged, pairs: Pairs, features: Floats) -> dict[str, object]:
    """Each source ranked with weights that never saw it."""
    scores, fitted = np.zeros(len(pairs.query)), {}
    sources = judged.sources
    for source in sorted(set(sources[judged.answerable].tolist())):
        weights = listwise(judged, pairs, features, judged.answerable & (sources != source))
        rows = (sources == source)[pairs.query]
        scores[rows] = features[rows] @ weights
        fitted[source] = {"dense": weights[0], "lexical": weights[1], "ratio": weights[0] / weights[1]}
    got = figures(judged, pairs, scores)
    means = {
        name: {figure: values[rows].mean() for figure, values in got.items()} for name, rows in judged.slices().items()
    }
    return {"weights_without": fitted, "figures": means}


def calibrated(judged: Judged, pairs: Pairs, cosine: Floats, bm25: Floats, weights: Floats) -> tuple[float, float]:
    def evidence(near: Floats, words: Floats) -> Floats:
        return weights[0] * logit(near) + weights[1] * words / rarest_idf(len(judged.tools))

    fits, drawn = fitting_and_random(judged)
    return logistic(
        judged,
        fits=(fits[0], evidence(cosine[fits], bm25[fits])),
        random=(drawn[0], evidence(cosine[drawn], bm25[drawn])),
        near=wrong(judged, pairs, evidence(pairs.cosine, pairs.bm25)),
    )


def calibrated_alone(judged: Judged, pairs: Pairs, bm25: Floats) -> tuple[float, float]:
    """Over pairs that share a word: the others are never found."""
    fits, drawn = fitting_and_random(judged)
    words = np.log(np.maximum(bm25 / rarest_idf(len(judged.tools)), 1e-9))
    fits, drawn = [(q[bm25[q, t] > 0], t[bm25[q, t] > 0]) for q, t in (fits, drawn)]
    query, evidence = wrong(judged, pairs, words[pairs.query, pairs.tool])
    found = evidence > np.log(1e-8)
    return logistic(
        judged,
        fits=(fits[0], words[fits]),
        random=(drawn[0], words[drawn]),
        near=(query[found], evidence[found]),
    )


Column = tuple[np.ndarray, np.ndarray]


def fitting_and_random(judged: Judged) -> tuple[Column, Column]:
    """Query and tool of every pair that fits, and of random ones that do not."""
    random = np.random.default_rng(SEED)
    fits = [(query, tool) for query, tools in enumerate(judged.relevant) for tool in sorted(tools)]
    drawn = [
        (query, tool)
        for query, tools in enumerate(judged.relevant)
        if tools
        for tool in random.integers(len(judged.tools), size=RANDOM_TOOLS).tolist()
        if tool not in tools
    ]
    fit_pairs, drawn_pairs = np.array(fits).T, np.array(drawn).T
    return (fit_pairs[0], fit_pairs[1]), (drawn_pairs[0], drawn_pairs[1])


def wrong(judged: Judged, pairs: Pairs, evidence: Floats) -> Column:
    rows = ~pairs.relevant & judged.answerable[pairs.query]
    return pairs.query[rows], evidence[rows]


def logistic(judged: Judged, *, fits: Column, random: Column, near: Column) -> tuple[float, float]:
    """Slope and offset of P(fits | evidence), by Newton's method; half of the weight fits, a quarter each is wrong."""
    groups = [(fits, 1.0, 0.5), (random, 0.0, 0.25), (near, 0.0, 0.25)]
    evidence = np.concatenate([column[1] for column, _, _ in groups])
    target = np.concatenate([np.full(len(column[0]), label) for column, label, _ in groups])
    weight = np.concatenate([share * spread(judged, column[0]) for column, _, share in groups])
    design, solution = np.stack([evidence, np.ones_like(evidence)], axis=1), np.zeros(2)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(design @ solution, -30, 30)))
        curvature = (design * (weight * chance * (1 - chance))[:, None]).T @ design
        solution = solution - np.linalg.solve(curvature, design.T @ (weight * (chance - target)))
    return float(solution[0]), float(solution[1])


def spread(judged: Judged, queries: np.ndarray) -> Floats:
    """A weight for each pair, by its query: sources weigh the same, all sum to 1."""
    sources = judged.sources[queries]
    names, inverse, counts = np.unique(sources, return_inverse=True, return_counts=True)
    return 1 / counts[inverse] / len(names)


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(float(value), 4) if isinstance(value, float | np.floating) else value


if __name__ == "__main__":
    main()
