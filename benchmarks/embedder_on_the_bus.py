"""What a vector costs beside the model: over the bus, in msgpack and JSON, and from a provider that is far away.

Claims:
- one caller, local model, over the bus: at most 1 ms more than the model alone (p50), a cached text at most 1 ms;
- the second call of a loaded local model, a short text: at most 3 ms for the default, 20 ms for all-MiniLM-L6-v2;
- a reply of 100 x 512 floats costs 50 times less CPU in msgpack than in JSON, encoded and decoded;
- 100 texts in one call to a provider that takes 100 ms are 20 times faster than 100 calls.

    python benchmarks/embedder_on_the_bus.py [--rounds 300]
"""

import asyncio
import random
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import uvloop
from fastapi import FastAPI, Request
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize

from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.connection import Bus
from skillbus.common.http_server import serve_http
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    CreateModel,
    CreateProvider,
    ProviderKind,
)
from skillbus.contracts.message import JSON, MSGPACK, FloatMatrix
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder

SEED = 7
VERBS = ("read", "commit", "translate", "提交", "分析", "翻译", "打开", "查询")
NOUNS = ("the excel sheet", "git changes", "an email", "代码", "客厅的灯", "天气预报")
LATENCY_S = 0.1
TEXTS = 100
BLOCK = 20


def short_texts(dice: random.Random, count: int) -> list[str]:
    """Some 20 characters, and never the same."""
    return [f"{dice.choice(VERBS)} {dice.choice(NOUNS)} {dice.randrange(10**6)}" for _ in range(count)]


async def timed_ms(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1e3


async def embed(bus: Bus, *texts: str, model: str | None = None) -> TextsEmbedded:
    request = EmbedTexts(texts=texts, role=TextRole.QUERY, model=model)
    return await bus.caller.call(EMBED_TEXTS, request, content_type=MSGPACK)


async def one_caller(bus: Bus, rounds: int) -> dict[str, object]:
    """Blocks of each kind in turns, so that other load meets all of them."""
    dice, model = random.Random(SEED), UseModel(threads=1)
    await asyncio.to_thread(model.load)
    bare: list[float] = []
    over: list[float] = []
    cached: list[float] = []
    for _ in range(rounds // BLOCK):
        for text in short_texts(dice, BLOCK):
            started = time.perf_counter()
            model.embed([text], TextRole.QUERY)
            bare.append((time.perf_counter() - started) * 1e3)
        some = short_texts(dice, BLOCK)
        over += [await timed_ms(lambda text=text: embed(bus, text)) for text in some]
        cached += [await timed_ms(lambda text=text: embed(bus, text)) for text in some]
    added = statistics.median(over) - statistics.median(bare)
    return {
        "bare_ms": summarize(bare),
        "over_the_bus_ms": summarize(over),
        "added_p50_ms": round(added, 2),
        "cached_ms": summarize(cached),
    }


async def minilm(bus: Bus, rounds: int) -> dict[str, float]:
    name = "all-MiniLM-L6-v2"
    await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name=name))
    dice = random.Random(SEED + 1)
    await embed(bus, "first", model=name)
    return summarize(
        [await timed_ms(lambda text=text: embed(bus, text, model=name)) for text in short_texts(dice, rounds)]
    )


def codecs(rounds: int) -> dict[str, float]:
    """CPU of one reply, encoded and decoded, in milliseconds."""
    rows = np.random.default_rng(SEED).normal(size=(TEXTS, 512)).astype("<f4")
    reply = TextsEmbedded(model=None, dense=FloatMatrix(dim=512, count=TEXTS, data=rows.tobytes()))
    costs = {}
    for name, kind in (("json", JSON), ("msgpack", MSGPACK)):
        count = max(1, rounds // 15) if kind == JSON else rounds * 6
        started = time.process_time()
        for _ in range(count):
            decode(TextsEmbedded, encode(reply, kind), kind)
        costs[f"{name}_ms"] = (time.process_time() - started) / count * 1e3
    return {name: round(cost, 4) for name, cost in costs.items()} | {
        "json_to_msgpack": round(costs["json_ms"] / costs["msgpack_ms"], 1)
    }


@asynccontextmanager
async def slow_provider() -> AsyncGenerator[str]:
    """OpenAI's protocol, 100 ms a call, on loopback."""
    app = FastAPI()

    @app.post("/v1/embeddings")
    async def embeddings(request: Request) -> dict[str, object]:
        texts = (await request.json())["input"]
        await asyncio.sleep(LATENCY_S)
        data = [{"index": at, "embedding": [1.0] + [0.0] * 511} for at in range(len(texts))]
        return {"data": data, "usage": {"prompt_tokens": len(texts)}}

    async with serve_http(app, "127.0.0.1", 0) as url:
        yield f"{url}/v1"


async def far_away(bus: Bus, count: int) -> dict[str, float]:
    async with slow_provider() as url:
        await bus.caller.call(CREATE_PROVIDER, CreateProvider(name="far", kind=ProviderKind.OPENAI, base_url=url))
        await bus.caller.call(CREATE_MODEL, CreateModel(provider="far", name="slow", dimensions=512))

        async def one_by_one(texts: Sequence[str]) -> None:
            for text in texts:
                await embed(bus, text, model="far/slow")

        dice = random.Random(SEED + 2)
        await embed(bus, "first", model="far/slow")
        together = await timed_ms(lambda: embed(bus, *short_texts(dice, count), model="far/slow"))
        apart = await timed_ms(lambda: one_by_one(short_texts(dice, count)))
    return {
        "one_call_ms": round(together, 1),
        "calls_one_by_one_ms": round(apart, 1),
        "ratio": round(apart / together, 1),
    }


async def measure(rounds: int, far_texts: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data, private_addresses="127.0.0.1")))
        await embed(bus, "first")
        return {
            "one_caller": await one_caller(bus, rounds),
            "all_minilm_l6_v2_over_the_bus_ms": await minilm(bus, rounds),
            "reply_of_100_x_512": codecs(rounds),
            "provider_of_100_ms": await far_away(bus, far_texts),
        }


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--far-texts", type=int, default=TEXTS, help="texts for the far provider (%(default)s)")
    given = parser.read_arguments()
    figures = uvloop.run(measure(given.rounds, given.far_texts))
    bounds = {
        "one_caller.added_p50_ms": "<= 1",
        "one_caller.cached_ms.p50": "<= 1",
        "one_caller.bare_ms.p50": "<= 3",
        "all_minilm_l6_v2_over_the_bus_ms.p50": "<= 20",
        "reply_of_100_x_512.json_to_msgpack": ">= 50",
        "provider_of_100_ms.ratio": ">= 20",
    }
    setting = {"rounds": given.rounds, "seed": SEED}
    save_result("embedder_on_the_bus", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
