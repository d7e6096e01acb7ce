"""How long the embedded vector store takes for the queries of one search, through the port, beside numpy.

Baseline: exact brute force with numpy on the same points in the same run, interleaved with the store's queries so
that both see the same load. Writes benchmarks/results/vector_store.json.

    uv run python benchmarks/vector_store.py [--points 10000] [--queries 200]
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from qdrant_client import models

from skillbus.vectors import DENSE, LEXICAL, CollectionSpec, VectorStore, open_vector_store, point_id

SEED = 7
DIM = 512
WORDS = 5_000
WORDS_A_POINT = 12
TOP = 50
COLLECTION = "tools"
PAYLOAD = ["name", "tool_type", "tags"]


class Corpus:
    """Clustered unit vectors and zipf-distributed words, the shape of a catalogue of tools."""

    def __init__(self, count: int) -> None:
        self._random = np.random.default_rng(SEED)
        self._centres = self._random.normal(size=(int(count**0.5), DIM))
        self.dense = self._unit(count)
        self.words = [self._words() for _ in range(count)]

    def _unit(self, count: int) -> np.ndarray:
        rows = self._centres[self._random.integers(len(self._centres), size=count)]
        rows = rows + 0.7 * self._random.normal(size=(count, DIM))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def _words(self) -> list[int]:
        return sorted({int(word) % WORDS for word in self._random.zipf(1.3, size=WORDS_A_POINT)})

    def points(self) -> list[models.PointStruct]:
        return [
            models.PointStruct(
                id=point_id(str(row)),
                vector={DENSE: self.dense[row].tolist(), LEXICAL: sparse(self.words[row])},
                payload={
                    "project": "default",
                    "name": f"tool-{row}",
                    "tool_type": "skill",
                    "tags": ["a", f"t{row % 9}"],
                },
            )
            for row in range(len(self.dense))
        ]

    def question(self) -> tuple[np.ndarray, list[int]]:
        return self._unit(1)[0], self._words()


def sparse(words: list[int]) -> models.SparseVector:
    return models.SparseVector(indices=words, values=[1.0] * len(words))


def requests(dense: np.ndarray, words: list[int], ids: list[str]) -> dict[str, list[models.QueryRequest]]:
    """The queries of one search, apart and together; all inside a tenant."""
    tenant = models.FieldCondition(key="project", match=models.MatchValue(value="default"))
    inside = models.Filter(must=[tenant])
    by_id = models.Filter(must=[tenant, models.HasIdCondition(has_id=ids)])
    vector = dense.tolist()
    near = models.QueryRequest(query=vector, using=DENSE, filter=inside, limit=TOP, with_payload=PAYLOAD)
    unfiltered = models.QueryRequest(query=vector, using=DENSE, limit=TOP, with_payload=PAYLOAD)
    lexical = models.QueryRequest(query=sparse(words), using=LEXICAL, filter=inside, limit=TOP, with_payload=PAYLOAD)
    scored = models.QueryRequest(query=vector, using=DENSE, filter=by_id, limit=len(ids))
    return {
        "dense, no filter": [unfiltered],
        "dense": [near],
        "lexical": [lexical],
        "dense and lexical in one batch": [near, lexical],
        "dense scores of 50 ids": [scored],
    }


async def clocked(call: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1000


def numpy_ms(matrix: np.ndarray, question: np.ndarray) -> float:
    started = time.perf_counter()
    scores = matrix @ question
    best = np.argpartition(-scores, TOP)[:TOP]
    best[np.argsort(-scores[best])]
    return (time.perf_counter() - started) * 1000


async def measure(store: VectorStore, corpus: Corpus, queries: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for turn in range(queries + 5):
        dense, words = corpus.question()
        (hits,) = await store.query(COLLECTION, [models.QueryRequest(query=sparse(words), using=LEXICAL, limit=TOP)])
        ids = [hit.id for hit in hits] or [point_id("0")]
        took = {"numpy brute force, dense": numpy_ms(corpus.dense, dense)}
        for name, asked in requests(dense, words, ids).items():
            took[name] = await clocked(lambda asked=asked: store.query(COLLECTION, asked))
        took["lexical vectors of 50 ids"] = await clocked(
            lambda ids=ids: store.retrieve(COLLECTION, ids, with_payload=False, with_vectors=[LEXICAL])
        )
        if turn >= 5:  # the first ones warm up
            for name, value in took.items():
                times.setdefault(name, []).append(value)
    return times


async def recall(store: VectorStore, corpus: Corpus) -> float:
    """Share of numpy's top 10 that the store's top 10 holds; 1.0, or something is wrong."""
    row = {point_id(str(number)): number for number in range(len(corpus.dense))}
    found = 0
    for _ in range(20):
        dense, _words = corpus.question()
        asked = models.QueryRequest(query=dense.tolist(), using=DENSE, limit=10)
        (hits,) = await store.query(COLLECTION, [asked])
        found += len({row[hit.id] for hit in hits} & set(np.argsort(-(corpus.dense @ dense))[:10].tolist()))
    return found / 200


async def run(count: int, queries: int) -> dict[str, object]:
    corpus = Corpus(count)
    written = corpus.points()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        async with open_vector_store(None, path) as store:
            await store.ensure_collection(COLLECTION, CollectionSpec(DIM, ("tool_type", "tags", "name")))
            ingest_ms = await clocked(lambda: store.upsert(COLLECTION, written))
        started = time.perf_counter()
        async with open_vector_store(None, path) as store:
            reopen_ms = (time.perf_counter() - started) * 1000
            times = await measure(store, corpus, queries)
            share = await recall(store, corpus)
    return {"ingest_points_per_s": count / ingest_ms * 1000, "reopen_ms": reopen_ms, "recall_at_10": share} | report(
        times
    )


def report(times: dict[str, list[float]]) -> dict[str, object]:
    baseline = statistics.median(times["numpy brute force, dense"])
    return {
        "queries": {
            name: {
                "p50_ms": statistics.median(values),
                "p95_ms": statistics.quantiles(values, n=20)[18],
                "p50_over_numpy": statistics.median(values) / baseline,
            }
            for name, values in times.items()
        }
    }


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--points", type=int, default=10_000)
    arguments.add_argument("--queries", type=int, default=200)
    options = arguments.parse_args()
    result = rounded(
        {
            "what": "Qdrant Edge through the port, and numpy brute force in the same run",
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {
                "cpus": os.cpu_count(),
                "arch": platform.machine(),
                "load_1min": os.getloadavg()[0],
                "python": sys.version.split()[0],
                **{name: version(name) for name in ("qdrant-edge-py", "qdrant-client", "numpy")},
            },
            "seed": SEED,
            "points": options.points,
            "dim": DIM,
            "limit": TOP,
            **asyncio.run(run(options.points, options.queries)),
        }
    )
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (Path(__file__).parent / "results" / "vector_store.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
