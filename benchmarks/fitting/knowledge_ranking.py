"""How well items of knowledge are ranked, and the fit of their relevance, on judged queries.

Each set weighs the same in the fit, and each is measured with the map of the product and with one fitted to the others.
`variants` are other ways to make an item's vector and its words, with the same map. `foreign` are queries of one set
asked of another: nothing answers them. Everything is computed in memory from what the embedder makes; what comes back
over the bus is measured by `skillbus eval knowledge`.

    uv run python benchmarks/fitting/knowledge_ranking.py [--data DIR]
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from judged_tools import DEFAULT_MODEL, describe_setting, embedder_of, save_report
from numpy.typing import NDArray

from skillbus.calibration.bm25 import build_search_encoder
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.scope import match_scope
from skillbus.evaluation.knowledge_cases import Doc, KnowledgeCase, KnowledgeCases, load_knowledge_cases
from skillbus.evaluation.measures import KnowledgeMeasure, compute_knowledge_measures
from skillbus.relevance.knowledge_evidence import (
    ALONE_HALF,
    ALONE_POWER,
    DENSE,
    LEXICAL,
    OFFSET,
    KnowledgeRelevance,
    derive_knowledge_relevance,
    sum_own_weights,
)
from skillbus.relevance.knowledge_text import (
    MEAN_TERMS,
    build_item_aside_text,
    build_item_dense_texts,
    build_item_lexical_text,
)
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.score import (
    build_relevance,
    compute_least_evidence,
    compute_probability,
    compute_rarest_idf,
    find_calibration,
)
from skillbus.retriever.domain.knowledge.score_factors import NEUTRAL as WEIGHTS
from skillbus.retriever.domain.knowledge.score_factors import names_tag
from skillbus.vectors.mean_direction import compute_mean_direction

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "knowledge"
SETS = ("covid_faq_en", "apisix_bilingual", "cranfield_en", "cmrc_zh")
CANDIDATES = 20
FITS = (0.01, 0.02, 0.05, 0.1)
Floats = NDArray[np.float64]
Texts = Callable[[Doc], tuple[str, ...]]
EMBED = embedder_of(DEFAULT_MODEL)
OF_MODEL = build_relevance(find_calibration(DEFAULT_MODEL))


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A set, and what both sides say of its queries: arrays of shape (queries, items)."""

    docs: tuple[Doc, ...]
    cases: tuple[KnowledgeCase, ...]
    cosines: Floats
    bm25: Floats
    asked: Floats
    """Weight of each query's own terms."""

    @property
    def words(self) -> Floats:
        """As `KnowledgeRelevance` counts them."""
        scaled: Floats = self.bm25 / compute_rarest_idf(len(self.docs)) / np.sqrt(np.maximum(self.asked, 0.25))[:, None]
        return scaled

    def ranked(self, scores: Floats) -> list[list[str]]:
        """The first ten of each query."""
        best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        return [
            [self.docs[row].id for row in rows if scores[query, row] > -math.inf] for query, rows in enumerate(best)
        ]

    def figures(self, scores: Floats) -> dict[str, float]:
        measured = compute_knowledge_measures(self.ranked(scores), self.cases)
        wanted = (KnowledgeMeasure.HIT_AT_1, KnowledgeMeasure.NDCG_AT_10)
        return {str(measure): round(float(np.nanmean(measured[measure])), 4) for measure in wanted}

    def candidates(self, query: int) -> list[int]:
        """Of either side."""
        near = np.argsort(-self.cosines[query])[:CANDIDATES].tolist()
        return sorted({*near, *np.argsort(-self.bm25[query])[:CANDIDATES].tolist()})

    def evidence(self) -> Floats:
        """By the product's own map."""
        scores = np.full(self.cosines.shape, -math.inf)
        for query in range(len(self.cases)):
            relevance = KnowledgeRelevance(
                derive_knowledge_relevance(OF_MODEL), float(self.asked[query]), len(self.docs)
            )
            for row in self.candidates(query):
                scores[query, row] = relevance.compute_evidence(self.cosines[query, row], self.bm25[query, row])
        return scores

    def with_factors(self, scores: Floats) -> Floats:
        """The factors that these data have: tags that are named, and scopes."""
        moved = scores.copy()
        for query, case in enumerate(self.cases):
            for row in np.flatnonzero(np.isfinite(scores[query])).tolist():
                moved[query, row] += _factor(case, self.docs[row])
        return moved


def _factor(case: KnowledgeCase, doc: Doc) -> float:
    tag = WEIGHTS.tag if names_tag(case.query, doc.tags) else 0.0
    if case.scope is None:
        return tag
    near = match_scope(doc.scope, case.scope)
    return -math.inf if near is None else tag + {"exact": WEIGHTS.exact}.get(near, 0.0)


def world_of(cases: KnowledgeCases, texts: Texts, encoder: LexicalEncoder, words: Callable[[Doc], str]) -> World:
    docs, queries = cases.docs, [case.query for case in cases.cases]
    cosines = unit(EMBED(queries, TextRole.QUERY)) @ item_vectors(docs, texts).T
    asker = build_search_encoder()
    vectors = [asker.encode_query(query) for query in queries]
    asked = [sum_own_weights(query, it.terms, it.values.tolist()) for query, it in zip(queries, vectors, strict=True)]
    bm25 = bm25_of([words(doc) for doc in docs], [build_item_aside_text(doc.scope) for doc in docs], encoder, vectors)
    return World(docs, cases.cases, cosines.astype(np.float64), bm25, np.array(asked))


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    made: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def item_vectors(docs: Sequence[Doc], texts: Texts) -> NDArray[np.float32]:
    parts = [texts(doc) for doc in docs]
    rows = unit(EMBED([text for some in parts for text in some], TextRole.DOCUMENT))
    starts = np.cumsum([0, *map(len, parts)])
    return np.stack([compute_mean_direction(rows[begin:end]) for begin, end in pairwise(starts)])


def bm25_of(texts: Sequence[str], asides: Sequence[str], encoder: LexicalEncoder, queries: Sequence[object]) -> Floats:
    """As the store counts it."""
    posted = defaultdict[int, list[tuple[int, float]]](list)
    for row, (text, aside) in enumerate(zip(texts, asides, strict=True)):
        vector = encoder.encode_document(text, aside)
        for index, value in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
            posted[index].append((row, value))
    scores = np.zeros((len(queries), len(texts)))
    for query, vector in enumerate(queries):
        for index, weight in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):  # type: ignore[attr-defined]
            rows = posted.get(index, [])
            idf = math.log(1 + (len(texts) - len(rows) + 0.5) / (len(rows) + 0.5))
            for row, value in rows:
                scores[query, row] += weight * value * idf
    return scores


def pairs_of(world: World) -> Floats:
    """Rows of (logit of the cosine, words, 1, whether it answers, weight), of all candidates."""
    words = world.words
    near = np.clip(np.maximum(world.cosines, 0.1 * np.minimum(1, words)), 0.01, 0.99)
    return np.array(
        [
            (
                math.log(near[query, row] / (1 - near[query, row])),
                words[query, row],
                1.0,
                float(world.docs[row].id in case.grades),
                1 / len(world.cases),
            )
            for query, case in enumerate(world.cases)
            for row in world.candidates(query)
        ]
    )


def fitted(pairs: Floats, columns: Sequence[int]) -> Floats:
    """Weighted logistic regression on these columns, by Newton's method."""
    values, answers, weights = pairs[:, columns], pairs[:, 3], pairs[:, 4]
    found = np.zeros(len(columns))
    for _ in range(60):
        likely = 1 / (1 + np.exp(-np.clip(values @ found, -30, 30)))
        slope = values.T @ (weights * (answers - likely))
        curve = (values * (weights * likely * (1 - likely))[:, None]).T @ values + 1e-6 * np.eye(len(columns))
        found += np.linalg.solve(curve, slope)
    return found


def alone_of(pairs: Floats) -> dict[str, float]:
    """Power and half of the map without a cosine."""
    shared = pairs[pairs[:, 1] > 0]
    power, offset = fitted(np.column_stack([np.log(shared[:, 1]), shared[:, 2], shared[:, 2:]]), (0, 1))
    return {"power": round(float(power), 3), "half": round(math.exp(-offset / power), 3)}


def reliability(worlds: Mapping[str, World]) -> list[dict[str, float]]:
    """Of the first ten of each query, by bins of their score; each set weighs the same."""
    edges = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
    rows = list[tuple[float, float, float]]()
    for world in worlds.values():
        scores = world.with_factors(world.evidence())
        for query, ids in enumerate(world.ranked(scores)):
            best = sorted(scores[query][np.isfinite(scores[query])], reverse=True)[:10]
            weight = 1 / len(world.cases)
            answers = world.cases[query].grades
            rows += [(compute_probability(s), float(i in answers), weight) for s, i in zip(best, ids, strict=True)]
    table = np.array(rows)
    bins = list[dict[str, float]]()
    for low, high in pairwise(edges):
        some = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        if len(some):
            score, answered = np.average(some[:, :2], axis=0, weights=some[:, 2])
            share = some[:, 2].sum() / table[:, 2].sum()
            bins.append({"score": round(score, 4), "answered": round(answered, 4), "share": round(share, 4)})
    return bins


def thresholds(worlds: Mapping[str, World], cases: Mapping[str, KnowledgeCases], words: LexicalEncoder) -> object:
    """By least score: right first hits that it costs, and foreign queries that it keeps from being answered."""
    found = dict[str, object]()
    for name, world in worlds.items():
        foreign = tuple(case for other in worlds if other != name for case in cases[other].cases[:60])
        asked = world_of(replace(cases[name], cases=foreign), of_product, words, words_of_product)
        own, other = world.evidence(), asked.evidence().max(axis=1)
        best = own.max(axis=1)
        rows = own.argmax(axis=1).tolist()
        right = np.array([world.docs[row].id in case.grades for row, case in zip(rows, world.cases, strict=True)])
        least = {fits: compute_least_evidence(fits, len(world.docs)) for fits in FITS}
        found[name] = {
            str(fits): {
                "hit_at_1_lost": round(float((right & (best < least[fits])).mean()), 4),
                "foreign_answered_with_nothing": round(float((other < least[fits]).mean()), 4),
            }
            for fits in FITS
        }
    return found


def of_product(doc: Doc) -> tuple[str, ...]:
    return build_item_dense_texts(doc.title, doc.content)


def words_of_product(doc: Doc) -> str:
    return build_item_lexical_text(doc.title, doc.content, doc.tags)


def title_once(doc: Doc) -> str:
    return "\n".join((doc.title, doc.content, *doc.tags))


PRODUCT = LexicalEncoder().with_average_terms(MEAN_TERMS)
VARIANTS: Mapping[str, tuple[Texts, LexicalEncoder, Callable[[Doc], str]]] = {
    "one text of 300 characters": (lambda it: (f"{it.title}\n{it.content[:300]}",), PRODUCT, words_of_product),
    "one text of 1,000 characters": (lambda it: (f"{it.title}\n{it.content[:1000]}",), PRODUCT, words_of_product),
    "the title alone": (lambda it: (it.title,), PRODUCT, words_of_product),
    "passages without the title": (
        lambda it: build_item_dense_texts(it.title, it.content)[1:] or (it.title,),
        PRODUCT,
        words_of_product,
    ),
    "lengths held against those of tools": (of_product, LexicalEncoder(), words_of_product),
    "the title once in the words": (of_product, PRODUCT, title_once),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    folder = parser.parse_args().data
    cases = {name: load_knowledge_cases(folder / name) for name in SETS}
    plain = {
        name: replace(read, cases=tuple(case for case in read.cases if case.scope is None))
        for name, read in cases.items()
    }
    worlds = {name: world_of(read, of_product, PRODUCT, words_of_product) for name, read in plain.items()}
    pairs = {name: pairs_of(world) for name, world in worlds.items()}
    scoped = replace(
        cases["apisix_bilingual"],
        cases=tuple(case for case in cases["apisix_bilingual"].cases if case.scope is not None),
    )
    scope_world = world_of(scoped, of_product, PRODUCT, words_of_product)
    of_scopes = replace(
        scope_world, cases=tuple(replace(case, scope=None) for case in scope_world.cases)
    )  # the same queries, asked without their scopes
    result: dict[str, object] = {
        **describe_setting(7, DEFAULT_MODEL),
        "map": {"dense": DENSE, "lexical": LEXICAL, "offset": OFFSET, "alone": [ALONE_POWER, ALONE_HALF]},
        "fitted": {
            "all": np.round(fitted(np.concatenate(list(pairs.values())), (0, 1, 2)), 3).tolist(),
            "alone": alone_of(np.concatenate(list(pairs.values()))),
        },
        "sets": {name: _figures(world, _others(pairs, name)) for name, world in worlds.items()},
        "scopes": {
            "with": scope_world.figures(scope_world.with_factors(scope_world.evidence())),
            "without": of_scopes.figures(of_scopes.with_factors(of_scopes.evidence())),
        },
        "variants": {
            name: {
                one: (made := world_of(plain[one], *variant)).figures(made.with_factors(made.evidence()))["ndcg_at_10"]
                for one in SETS
            }
            for name, variant in VARIANTS.items()
        },
        "thresholds": thresholds(worlds, plain, PRODUCT),
        "reliability": reliability(worlds),
    }
    save_report("knowledge_ranking", result)


def _others(pairs: Mapping[str, Floats], name: str) -> Floats:
    return fitted(np.concatenate([some for other, some in pairs.items() if other != name]), (0, 1, 2))


def _figures(world: World, others: Floats) -> dict[str, object]:
    near = np.clip(np.maximum(world.cosines, 0.1 * np.minimum(1, world.words)), 0.01, 0.99)
    without = others[0] * np.log(near / (1 - near)) + others[1] * world.words
    return {
        "items": len(world.docs),
        "queries": len(world.cases),
        "skillbus": world.figures(world.with_factors(world.evidence())),
        "without_tags": world.figures(world.evidence()),
        "fitted_to_the_others": world.figures(without),
        "bm25": world.figures(world.bm25),
        "cosine": world.figures(world.cosines),
    }


if __name__ == "__main__":
    main()
