"""How well the retriever's domain ranks the judged tools, beside simpler rankings of the same candidates.

Baselines in the same run: BM25, cosine, and half and half of both scaled to 0..1 within the query. Intervals are 95 %,
by bootstrap over queries; `ratio` is of means, `difference` is paired. The weights were fitted to the same tools:
fit_relevance.py has the figures with each source left out.

    uv run python benchmarks/ranking_quality.py [--data DIR]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from tool_search_lab import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    RESULTS,
    dense_scores,
    embedder_of,
    figures,
    lexical_scores,
    load,
    rounded,
    slices,
    surroundings,
)

from skillbus.calibration.bm25 import Floats
from skillbus.calibration.judged import Bools, Judged, JudgedTool
from skillbus.calibration.pairs import SEED, Pairs, survey
from skillbus.calibration.vectors import Embed, embedded
from skillbus.embedder.domain.calibrations import calibration_of
from skillbus.retriever.domain.ranking import Candidate, rank
from skillbus.retriever.domain.relevance import rarest_idf, relevance_of

RELEVANCE = relevance_of(calibration_of(DEFAULT_MODEL))
RESAMPLES = 1_000
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    judged, embed = load(parser.parse_args().data), embedder_of(DEFAULT_MODEL)
    pairs = survey(judged, embedded(judged, embed)).candidates
    scores, rank_us = ranked(judged, pairs)
    report = {
        **surroundings(SEED, DEFAULT_MODEL),
        "tools": len(judged.tools),
        "queries": {name: int(rows.sum()) for name, rows in slices(judged).items()},
        "ranking": compared(judged, pairs, scores),
        "lexical_only_recall_at_5": lexical_only(judged, pairs),
        "texts_recall_at_5": texts(judged, embed),
        "no_match": abstention(judged, pairs, scores),
        "rank_us": {
            "candidates_median": float(np.median(np.bincount(pairs.query))),
            "p50": float(np.percentile(rank_us, 50)),
            "p95": float(np.percentile(rank_us, 95)),
        },
    }
    text = json.dumps(rounded(report), ensure_ascii=False, indent=2)
    (RESULTS / "ranking_quality.json").write_text(text + "\n", "utf-8")
    print(text)


def ranked(judged: Judged, pairs: Pairs) -> tuple[Floats, Floats]:
    """The evidence of every candidate, and the time of `rank` for each query, µs."""
    size, took = len(judged.tools), []
    columns = zip(pairs.cosine.tolist(), pairs.words.tolist(), strict=True)
    scores = np.array([RELEVANCE.evidence(cosine, words) for cosine, words in columns])
    ends = [*pairs.start[1:].tolist(), len(pairs.query)]
    for start, end in zip(pairs.start.tolist(), ends, strict=True):
        found = [candidate(pairs, row, rarest_idf(size)) for row in range(start, end)]
        began = time.perf_counter()
        hits = rank(found, RELEVANCE, size)
        took.append((time.perf_counter() - began) * 1e6)
        assert hits[0].id == found[int(np.lexsort((-pairs.cosine[start:end], -scores[start:end]))[0])].id
    return scores, np.array(took)


def candidate(pairs: Pairs, row: int, rarest: float) -> Candidate:
    bm25 = float(pairs.words[row]) * rarest
    return Candidate(id=f"{int(pairs.tool[row]):06}", cosine=float(pairs.cosine[row]), bm25=bm25 or None)


def compared(judged: Judged, pairs: Pairs, scores: Floats) -> dict[str, object]:
    baselines = {
        "bm25": pairs.words,
        "cosine": pairs.cosine,
        "half_and_half": 0.5 * scaled(pairs, pairs.cosine) + 0.5 * scaled(pairs, pairs.words),
    }
    ours = figures(judged, pairs, scores)
    theirs = {name: figures(judged, pairs, values) for name, values in baselines.items()}
    return {
        part: {
            figure: {"ours": interval(values[rows])}
            | {name: beside(values[rows], other[figure][rows]) for name, other in theirs.items()}
            for figure, values in ours.items()
        }
        for part, rows in slices(judged).items()
    }


def scaled(pairs: Pairs, values: Floats) -> Floats:
    """0 to 1 within each query."""
    least = np.minimum.reduceat(values, pairs.start)[pairs.query]
    most = np.maximum.reduceat(values, pairs.start)[pairs.query]
    return (values - least) / np.maximum(most - least, 1e-9)


def interval(values: Floats) -> dict[str, object]:
    return {"mean": values.mean(), "interval": np.percentile(resampled(values), [2.5, 97.5])}


def beside(ours: Floats, theirs: Floats) -> dict[str, object]:
    return {
        "mean": theirs.mean(),
        "ratio": ours.mean() / theirs.mean(),
        "difference": np.percentile(resampled(ours - theirs), [2.5, 97.5]),
    }


def resampled(values: Floats) -> Floats:
    random = np.random.default_rng(SEED)
    return np.array([values[random.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)])


def lexical_only(judged: Judged, pairs: Pairs) -> dict[str, float]:
    """Without the model: BM25 orders, ties by id."""
    got = figures(judged, pairs, np.where(pairs.words > 0, pairs.words, -pairs.tool))["recall_at_5"]
    return {part: got[rows].mean() for part, rows in slices(judged).items()}


def texts(judged: Judged, embed: Embed) -> dict[str, dict[str, float]]:
    """Of each side alone: the texts of tool_text.py, and name and description only."""

    def plain(tool: JudgedTool) -> str:
        return f"{tool.name}. {tool.description}"

    sides = {
        "dense": dense_scores(judged, embed, lambda tool: tool.dense_text),
        "dense, name and description": dense_scores(judged, embed, plain),
        "lexical": lexical_scores(judged, lambda tool: tool.lexical_text),
        "lexical, name and description": lexical_scores(judged, plain),
    }
    return {side: recalls(judged, values) for side, values in sides.items()}


def recalls(judged: Judged, scores: Floats) -> dict[str, float]:
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5].tolist()
    got = np.array(
        [len(tools & set(top)) / max(1, len(tools)) for tools, top in zip(judged.relevant, best, strict=True)]
    )
    return {part: got[rows].mean() for part, rows in slices(judged).items()}


def abstention(judged: Judged, pairs: Pairs, scores: Floats) -> dict[str, object]:
    """Queries that no tool fits against the others: AUC of the best score, and what each threshold does."""
    nothing = ~judged.answerable
    halves = 0.5 * scaled(pairs, pairs.cosine) + 0.5 * scaled(pairs, pairs.words)
    best = np.maximum.reduceat(scores, pairs.start)
    chance = 1 / (1 + np.exp(-scores))
    return {
        "queries": int(nothing.sum()),
        "auc": {
            name: auc(np.maximum.reduceat(values, pairs.start), judged.answerable)
            for name, values in (
                ("ours", scores),
                ("bm25", pairs.words),
                ("cosine", pairs.cosine),
                ("half_and_half", halves),
            )
        },
        "thresholds": {
            str(threshold): {
                "answered_with_nothing": (1 / (1 + np.exp(-best[nothing])) < threshold).mean(),
                "recall_at_5_lost": lost(judged, pairs, scores, chance >= threshold),
            }
            for threshold in THRESHOLDS
        },
    }


def lost(judged: Judged, pairs: Pairs, scores: Floats, kept: Bools) -> float:
    full = figures(judged, pairs, scores)["recall_at_5"]
    order = np.lexsort((-pairs.cosine, -scores, pairs.query))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - pairs.start[pairs.query[order]]
    hits = np.add.reduceat((pairs.relevant & kept & (place < 5)).astype(float), pairs.start)
    wanted = np.array([len(tools) for tools in judged.relevant])
    rows = judged.answerable
    return float(full[rows].mean() - (hits[rows] / wanted[rows]).mean())


def auc(best: Floats, answerable: Bools) -> float:
    above = best[answerable][:, None] - best[~answerable][None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


if __name__ == "__main__":
    main()
