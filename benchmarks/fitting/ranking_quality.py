"""How well the retriever's domain ranks the judged tools, what each part of it brings, and when nothing fits.

`ranking` has the product's own map beside simpler rankings of the same candidates; everything else is measured with
each source of requests left out: its requests are ranked by a map fitted to the others. Intervals are 95 %, by
bootstrap over requests; `ratio` is of means, `difference` is paired.

`shown` counts the requests of which at least one relevant tool is among the first, as for the tools that a chat is
shown: what the product's search shows, how far a reordering of the first tools could reach, and the same among the
tools of the request's own data set only. The last one tells a better ranking from one that recognises data sets:
requests of one data set look alike, and so do its tools, so a fit to some of its tools can gain by preferring all.

`names` is a second task, made for this: the requests for Chinese tools, when these have only their English names and
those of their arguments.

    uv run python benchmarks/fitting/ranking_quality.py [--data DIR]
"""

import argparse
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from judged_tools import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    describe_setting,
    embedder_of,
    figures,
    load,
    save_report,
    slices,
    sources_of,
)
from ranked_search import (
    Answers,
    Form,
    World,
    answers,
    argument_names,
    figures_of,
    maps_without,
    world_of,
)

from skillbus.calibration.bm25 import Floats, Ints
from skillbus.calibration.fit import compute_logits
from skillbus.calibration.judged import Bools, Judged
from skillbus.calibration.pairs import SEED, Pairs
from skillbus.calibration.vectors import JudgedVectors, embed_judged
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.relevance.score import (
    NEUTRAL,
    Relevance,
    build_relevance,
    compute_least_evidence,
    compute_rarest_idf,
    find_calibration,
)

RELEVANCE = build_relevance(find_calibration(DEFAULT_MODEL))
RESAMPLES = 1_000
DEPTHS = (5, 10, 20, 50, 100)
THRESHOLDS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
WITHOUT = {
    "sentences": Form(sentences=False),
    "translations": Form(translations=False),
    "provider and argument descriptions": Form(asides=False),
    "likeness": Form(spread=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    judged, embed = load(parser.parse_args().data), embedder_of(DEFAULT_MODEL)
    vectors = embed_judged(judged, embed)
    world = world_of(judged, vectors, Form())
    maps = maps_without(judged, world.pairs)
    product, held_out = answers(world, lambda _: RELEVANCE), answers(world, map_for(judged, maps))
    named = with_names_only(judged)
    renamed = JudgedVectors(
        embed([tool.dense_text for tool in named.tools], TextRole.DOCUMENT), vectors.asked, vectors.starts
    )
    report = {
        **describe_setting(SEED, DEFAULT_MODEL),
        "tools": len(judged.tools),
        "queries": {name: int(rows.sum()) for name, rows in slices(judged).items()},
        "ranking": compared(judged, world.pairs.candidates, figures_of(judged, product)),
        "sources_left_out": {
            "maps": {source: [it.dense, it.lexical, it.offset] for source, it in maps.items()},
            "figures": {part: intervals(judged, held_out, rows) for part, rows in slices(judged).items()},
            "recall_at_5_by_source": by_source(judged, held_out),
            "without": without_each(judged, vectors, held_out),
            "neutral_map": recalls(judged, answers(world, lambda _: NEUTRAL)),
            "words_alone": recalls(judged, answers(replace(world, form=Form(dense=False)), lambda _: NEUTRAL)),
            "names": names(judged, named, renamed, maps),
        },
        "shown": shown(world, product),
        "no_match": abstention(judged, held_out),
        "latin_keywords": keywords(judged),
        "rank_us": {
            "candidates_median": float(np.median([len(world.candidates(row)) for row in range(500)])),
            "p50": float(np.percentile(product.took_us, 50)),
            "p95": float(np.percentile(product.took_us, 95)),
        },
    }
    save_report("ranking_quality", report)


def map_for(judged: Judged, maps: dict[str, Relevance]) -> Callable[[int], Relevance]:
    """The map that has not seen a query's source; requests that no tool fits are in no fit, and get the product's."""
    sources = judged.sources.tolist()
    return lambda query: maps.get(sources[query], RELEVANCE)


def compared(judged: Judged, pairs: Pairs, ours: dict[str, Floats]) -> dict[str, object]:
    baselines = {
        "bm25": pairs.words,
        "cosine": pairs.cosine,
        "half_and_half": 0.5 * scaled(pairs, pairs.cosine) + 0.5 * scaled(pairs, pairs.words),
    }
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


def intervals(judged: Judged, found: Answers, rows: Bools) -> dict[str, object]:
    return {name: interval(values[rows]) for name, values in figures_of(judged, found).items()}


def recalls(judged: Judged, found: Answers) -> dict[str, float]:
    values = figures_of(judged, found)["recall_at_5"]
    return {part: values[rows].mean() for part, rows in slices(judged).items()}


def by_source(judged: Judged, found: Answers) -> dict[str, float]:
    values, sources = figures_of(judged, found)["recall_at_5"], judged.sources
    return {source: values[judged.answerable & (sources == source)].mean() for source in sources_of(judged)}


def without_each(judged: Judged, vectors: JudgedVectors, whole: Answers) -> dict[str, object]:
    """recall@5 of a search that lacks one part, fitted anew, and what the part brings."""
    full, report = figures_of(judged, whole)["recall_at_5"], {}
    for part, form in WITHOUT.items():
        world = world_of(judged, vectors, form)
        less = figures_of(judged, answers(world, map_for(judged, maps_without(judged, world.pairs))))["recall_at_5"]
        report[part] = {name: beside(full[rows], less[rows]) for name, rows in slices(judged).items()}
    return report


def shown(world: World, product: Answers) -> dict[str, object]:
    judged = world.judged
    idf = compute_rarest_idf(len(judged.tools))
    evidence = RELEVANCE.dense * compute_logits(world.nearest) + RELEVANCE.lexical * world.bm25 / idf
    data_set = np.array([tool.id.partition(".")[0] for tool in judged.tools])
    ranked = [np.argsort(-row, kind="stable") for row in evidence]
    own = [
        order[np.isin(data_set[order], data_set[list(wanted)])]
        for order, wanted in zip(ranked, judged.relevant, strict=True)
    ]
    parts = slices(judged) | {f"{source}, en": judged.sources == source for source in sources_of(judged)}
    parts = {part: rows & judged.answerable for part, rows in parts.items()}
    parts = {part: rows & (slices(judged)["en"] | ~np.char.endswith(part, ", en")) for part, rows in parts.items()}
    return {
        part: {
            "product at 10": interval(reach(judged, [product.tools(row) for row in range(len(ranked))], 10)[rows]),
            "all candidates": {str(depth): reach(judged, ranked, depth)[rows].mean() for depth in DEPTHS},
            "own data set": {str(depth): reach(judged, own, depth)[rows].mean() for depth in (1, 3, 5)},
        }
        for part, rows in parts.items()
        if rows.any()
    }


def reach(judged: Judged, ranked: Sequence[Ints | list[int]], depth: int) -> Floats:
    """1 for each query of which a relevant tool is among the first `depth`."""
    return np.array(
        [not wanted.isdisjoint(list(order[:depth])) for order, wanted in zip(ranked, judged.relevant, strict=True)],
        dtype=np.float64,
    )


def with_names_only(judged: Judged) -> Judged:
    """Chinese tools of which only names are told; their requests, and all other tools as they are."""
    tools = tuple(
        tool.model_copy(update={"description": "", "tags": (), "provider": "", "parameters": argument_names(tool)})
        if tool.lang == "zh"
        else tool
        for tool in judged.tools
    )
    return replace(judged, tools=tools)


def names(judged: Judged, named: Judged, vectors: JudgedVectors, maps: dict[str, Relevance]) -> dict[str, object]:
    rows = slices(judged)["zh"] & ~slices(judged)["zh_to_en"]

    def measured(world: World, map_of: Callable[[int], Relevance]) -> dict[str, object]:
        return {name: interval(values[rows]) for name, values in figures_of(named, answers(world, map_of)).items()}

    return {
        "queries": int(rows.sum()),
        "ours": measured(world_of(named, vectors, Form()), map_for(judged, maps)),
        "without translations": measured(world_of(named, vectors, Form(translations=False)), map_for(judged, maps)),
    }


def abstention(judged: Judged, found: Answers) -> dict[str, object]:
    """What each threshold does to requests that no tool fits, and to the others: asked of the best hit alone, as a
    search without a threshold does, or of every hit, as one with a threshold does."""
    nothing = ~judged.answerable
    chinese = nothing & np.array([query.lang == "zh" for query in judged.queries])
    top = np.array([hits[0].evidence if hits else -np.inf for hits in found.hits])
    least = {threshold: compute_least_evidence(threshold, len(judged.tools)) for threshold in THRESHOLDS}
    full = figures_of(judged, found)["recall_at_5"]
    parts = {"all": judged.answerable, **slices(judged)}
    return {
        "queries": int(nothing.sum()),
        "auc": auc(top, judged.answerable),
        "thresholds": {
            str(threshold): {
                "answered_with_nothing": (top[nothing] < least[threshold]).mean(),
                "answered_with_nothing_zh": (top[chinese] < least[threshold]).mean(),
                "recall_at_5_lost_by_best_hit": {
                    name: (full * (top < least[threshold]))[rows].mean() for name, rows in parts.items()
                },
                "recall_at_5_lost_by_every_hit": {
                    name: (full - filtered(judged, found, threshold))[rows].mean() for name, rows in parts.items()
                },
            }
            for threshold in THRESHOLDS
        },
    }


def keywords(judged: Judged) -> dict[str, object]:
    """recall@5 and share of empty answers of BM25 (k1 1.5, b .75) over the a-z words of names and descriptions.

    Agent frameworks come with such a search."""
    texts = [Counter(re.findall("[a-z0-9]+", f"{tool.name} {tool.description}".lower())) for tool in judged.tools]
    lengths = np.array([text.total() for text in texts])
    norms = 1.5 * (0.25 + 0.75 * lengths / lengths.mean())
    postings = defaultdict[str, list[tuple[int, int]]](list)
    for row, text in enumerate(texts):
        for word, count in text.items():
            postings[word].append((row, count))
    recalls, empty = list[float](), list[bool]()
    for query, wanted in zip(judged.queries, judged.relevant, strict=True):
        scores = np.zeros(len(texts))
        for word in postings.keys() & re.findall("[a-z0-9]+", query.query.lower()):
            rows, counts = np.array(postings[word]).T
            idf = math.log(1 + (len(texts) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += idf * counts * 2.5 / (counts + norms[rows])
        hits = {row for row in np.argsort(-scores, kind="stable")[:5].tolist() if scores[row] > 0}
        empty.append(not hits)
        recalls.append(len(hits & set(wanted)) / len(wanted) if wanted else math.nan)
    return {
        "recall_at_5": {part: np.array(recalls)[rows].mean() for part, rows in slices(judged).items()},
        "empty": {part: np.array(empty)[rows].mean() for part, rows in slices(judged).items()},
        "answered_with_nothing": np.array(empty)[~judged.answerable].mean(),
    }


def filtered(judged: Judged, found: Answers, threshold: float) -> Floats:
    """recall@5 of hits with that score or more."""
    kept = [[hit for hit in hits if hit.score >= threshold] for hits in found.hits]
    return figures_of(judged, Answers(kept, found.took_us))["recall_at_5"]


def auc(best: Floats, answerable: Bools) -> float:
    above = best[answerable][:, None] - best[~answerable][None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


if __name__ == "__main__":
    main()
