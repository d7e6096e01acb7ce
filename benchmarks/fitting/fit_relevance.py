"""Fits the map from cosine and words to a score of a local model on judged tools, as `skillbus models calibrate` does.

Beside what `skillbus.calibration` fits: each source of queries is also ranked with weights fitted to the others only;
and for the default model, slope and offset of words alone, which are the same for every model
(`skillbus.relevance.score.NEUTRAL`). The numbers go into `skillbus.relevance.score`.

    uv run python benchmarks/fitting/fit_relevance.py [--model NAME] [--data DIR]
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import numpy as np
from judged_tools import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    PACKAGES,
    bm25_of,
    describe_setting,
    embedder_of,
    figures,
    load,
    save_report,
    slices,
    sources_of,
)

from skillbus.calibration.bm25 import Floats, build_search_encoder
from skillbus.calibration.effect import measure_effect
from skillbus.calibration.fit import PairGroup, compute_logits, fit_calibration, fit_listwise, fit_logistic
from skillbus.calibration.judged import Judged
from skillbus.calibration.pairs import SEED, Pairs, Survey, build_survey
from skillbus.calibration.vectors import embed_judged
from skillbus.relevance.score import compute_rarest_idf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(PACKAGES), default=DEFAULT_MODEL)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    arguments = parser.parse_args()
    model, judged = arguments.model, load(arguments.data)
    pairs = build_survey(judged, embed_judged(judged, embedder_of(model)), build_search_encoder())
    calibration = fit_calibration(judged, pairs)
    report = {
        **describe_setting(SEED, model),
        "tools": len(judged.tools),
        "queries": len(judged.queries),
        "calibration": calibration.model_dump(),
        **({"lexical_alone": lexical_alone(judged, pairs)} if model == DEFAULT_MODEL else {}),
        "effect": {
            "neutral": asdict(measure_effect(None, judged, pairs)),
            "fitted": asdict(measure_effect(calibration, judged, pairs)),
        },
        "leave_source_out": leave_source_out(judged, pairs.candidates),
    }
    save_report("fit_relevance" if model == DEFAULT_MODEL else f"fit_relevance_{model}", report)


def lexical_alone(judged: Judged, pairs: Survey) -> dict[str, float]:
    """Over pairs that share a word, whoever found them: the others are never found."""
    words = bm25_of(judged, build_search_encoder()) / compute_rarest_idf(len(judged.tools))
    near = pairs.candidates.select_rows(~pairs.candidates.relevant & judged.for_one_tool[pairs.candidates.query])
    columns = ((pairs.right, True, 0.5), (pairs.random, False, 0.25), (near, False, 0.25))
    power, shift = fit_logistic(judged, [sharing(found, words, fits, share) for found, fits, share in columns])
    return {"power": power, "half": float(np.exp(-shift / power))}


def sharing(pairs: Pairs, words: Floats, fits: bool, share: float) -> PairGroup:
    shared = words[pairs.query, pairs.tool]
    return PairGroup(pairs.select_rows(shared > 0), np.log(shared[shared > 0]), fits, share)


def leave_source_out(judged: Judged, pairs: Pairs) -> dict[str, object]:
    """Each source ranked with weights that never saw it."""
    features = np.stack([compute_logits(pairs.cosine), pairs.words], axis=1)
    scores: Floats = np.zeros(len(pairs.query))
    weights_without, sources = {}, judged.sources
    for source in sources_of(judged):
        weights = fit_listwise(judged, pairs, judged.answerable & (sources != source))
        rows = (sources == source)[pairs.query]
        scores[rows] = features[rows] @ weights
        weights_without[source] = {"dense": weights[0], "lexical": weights[1], "ratio": weights[0] / weights[1]}
    got = figures(judged, pairs, scores)
    means = {
        name: {figure: values[rows].mean() for figure, values in got.items()} for name, rows in slices(judged).items()
    }
    return {"weights_without": weights_without, "figures": means}


if __name__ == "__main__":
    main()
