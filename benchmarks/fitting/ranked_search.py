"""A search in memory, ranked by the retriever's own domain, with any of its parts left out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged_tools import bm25_of, sources_of

from skillbus.calibration.bm25 import Floats, Ints, build_search_encoder
from skillbus.calibration.fit import fit_calibration
from skillbus.calibration.judged import Bools, Judged, JudgedTool
from skillbus.calibration.pairs import Pairs, Survey, build_survey
from skillbus.calibration.vectors import JudgedVectors
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.score import Relevance, build_relevance
from skillbus.retriever.domain.index import IndexCandidate
from skillbus.retriever.domain.tools.ranking import POOL, RankedTool, diversify, rank_candidates
from skillbus.retriever.domain.tools.search import CANDIDATES_A_HIT
from skillbus.retriever.settings import RetrieverSettings

LIMIT = 10
WORDS_OF = 128  # as the retriever asks the lexical side
CANDIDATES = max(RetrieverSettings.model_fields["candidates"].get_default(), CANDIDATES_A_HIT * LIMIT)
DISCOUNT = 1 / np.log2(np.arange(LIMIT) + 2)


@dataclass(frozen=True, slots=True)
class Form:
    """What a search does."""

    sentences: bool = True
    translations: bool = True
    asides: bool = True
    spread: bool = True
    dense: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """All that a search may look at. Arrays are of shape (queries, tools)."""

    judged: Judged
    form: Form
    whole: Floats
    """Cosines of the requests."""
    nearest: Floats
    """The same of requests or their sentences, whichever is nearer."""
    bm25: Floats
    weights: Sequence[Mapping[int, float]]
    """The sparse vector of each tool."""
    pairs: Survey

    def candidates(self, query: int) -> list[IndexCandidate]:
        """What either side finds."""
        near = best(self.whole[query]) if self.form.dense else np.zeros(0, np.int64)
        bm25 = self.bm25[query]
        words, known = best(bm25), best(bm25, WORDS_OF)
        words, shared = words[bm25[words] > 0], set(known[bm25[known] > 0].tolist())
        return [
            IndexCandidate(
                id=f"{tool:06}",
                cosine=float(self.nearest[query, tool]) if self.form.dense else None,
                bm25=float(bm25[tool]) if tool in shared else None,
            )
            for tool in np.union1d(near, words).tolist()
        ]


def world_of(judged: Judged, vectors: JudgedVectors, form: Form) -> World:
    if not form.asides:
        judged = replace(judged, tools=tuple(map(without_asides, judged.tools)))
    if not form.sentences:
        vectors = whole_requests(vectors)
    encoder = build_search_encoder() if form.translations else LexicalEncoder()
    count = len(judged.queries)
    return World(
        judged=judged,
        form=form,
        whole=whole_requests(vectors).compute_cosines(0, count),
        nearest=vectors.compute_cosines(0, count),
        bm25=bm25_of(judged, encoder),
        weights=[sparse(encoder, tool) for tool in judged.tools],
        pairs=build_survey(judged, vectors, encoder),
    )


def whole_requests(vectors: JudgedVectors) -> JudgedVectors:
    return JudgedVectors(vectors.tools, vectors.asked[vectors.starts], np.arange(len(vectors.starts)))


def without_asides(tool: JudgedTool) -> JudgedTool:
    return tool.model_copy(update={"provider": "", "parameters": argument_names(tool)})


def argument_names(tool: JudgedTool) -> dict[str, object]:
    properties = (tool.parameters or {}).get("properties")
    return {"properties": {name: {} for name in properties} if isinstance(properties, dict) else {}}


def sparse(encoder: LexicalEncoder, tool: JudgedTool) -> dict[int, float]:
    vector = encoder.encode_document(tool.lexical_text, tool.aside_text)
    return dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))


def best(scores: Floats, count: int = CANDIDATES) -> Ints:
    """The rows that a side gives."""
    found: Ints = np.argpartition(-scores, count)[:count]
    return found


def maps_without(judged: Judged, pairs: Survey) -> dict[str, Relevance]:
    """For each source of requests, the map fitted to all others."""
    sources = sources_of(judged)
    return {
        source: build_relevance(fit_calibration(*left_out(judged, pairs, judged.sources != source)))
        for source in sources
    }


def left_out(judged: Judged, pairs: Survey, kept: Bools) -> tuple[Judged, Survey]:
    """Some of the requests, numbered anew."""
    number = np.cumsum(kept) - 1

    def of(some: Pairs) -> Pairs:
        rows = some.select_rows(kept[some.query])
        return replace(rows, query=number[rows.query])

    rows = np.flatnonzero(kept).tolist()
    fewer = Judged(
        judged.tools, tuple(judged.queries[row] for row in rows), tuple(judged.relevant[row] for row in rows)
    )
    return fewer, Survey(of(pairs.candidates), of(pairs.right), of(pairs.random))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The first `LIMIT` of each query in their order, and how long it took to rank them."""

    hits: list[list[RankedTool]]
    took_us: Floats

    def tools(self, query: int) -> list[int]:
        return [int(hit.id) for hit in self.hits[query]]


def answers(world: World, map_of: Callable[[int], Relevance]) -> Answers:
    """`map_of` says by which map a query is ranked."""
    size, hits, took = len(world.judged.tools), [], []
    weights = {f"{row:06}": weight for row, weight in enumerate(world.weights)}
    for query in range(len(world.judged.queries)):
        found, relevance = world.candidates(query), map_of(query)
        began = time.perf_counter()
        pool = rank_candidates(found, relevance, size)[: max(POOL, LIMIT)]
        hits.append(list(diversify(pool, weights) if world.form.spread else pool)[:LIMIT])
        took.append((time.perf_counter() - began) * 1e6)
    return Answers(hits, np.array(took))


def figures_of(judged: Judged, found: Answers) -> dict[str, Floats]:
    """recall@5, hit@1 and nDCG@10 of each query; 0 where no tool fits."""
    rows = np.zeros((len(judged.queries), 3))
    for query, wanted in enumerate(judged.relevant):
        if wanted:
            fits = np.array([tool in wanted for tool in found.tools(query)], dtype=float)
            ideal = DISCOUNT[: min(LIMIT, len(wanted))].sum()
            rows[query] = fits[:5].sum() / len(wanted), fits[:1].sum(), (fits @ DISCOUNT[: len(fits)]) / ideal
    return dict(zip(("recall_at_5", "hit_at_1", "ndcg_at_10"), rows.T, strict=True))
