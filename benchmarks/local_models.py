"""Cost of each local model: loading time, memory, a short text once it is loaded, and batches.

Each model runs in a process of its own, with one thread, as the embedder runs it. Ratios are to the default model of
the same run.

    python benchmarks/local_models.py
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from measuring import BenchmarkParser, save_result, summarize

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings
from skillbus.embedder.domain.model import AsyncModel

MODELS = ("use-multilingual-v3", "all-MiniLM-L6-v2", "multilingual-e5-small")
SHORT = ("commit my changes", "帮我提交代码", "turn off the bedroom lights", "分析这个Excel文件")
CALLS = 60  # of each short text
BATCH = 16
BATCHES = 9
NOW = datetime(2026, 11, 22, tzinfo=UTC)
PROVIDER = ProviderRecord(name="local", kind=ProviderKind.LOCAL, version=1, created_at=NOW, updated_at=NOW)


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--model", help="measure this model only, in this process, and print its figures")
    given = parser.read_arguments()
    if given.model:
        print(json.dumps(asyncio.run(measured(given.model))))
        return
    found = {name: alone(name) for name in MODELS}
    short = {name: model["short_text_ms"]["p50"] for name, model in found.items()}
    ratios = {name: round(ms / short[MODELS[0]], 1) for name, ms in short.items()}
    save_result("local_models", {"models": found, "short_text_p50_to_default": ratios}, given.out)


def alone(name: str) -> dict[str, dict[str, float]]:
    run = subprocess.run([sys.executable, __file__, "--model", name], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, dict[str, float]] = json.loads(run.stdout)
    return result


async def measured(name: str) -> dict[str, object]:
    fields = {"id": "0" * 32, "provider": "local", "is_default": True, "fingerprint": None, "version": 1}
    record = ModelRecord.model_validate({**fields, "name": name, "created_at": NOW, "updated_at": NOW})
    model = LocalModels(LocalSettings(Path("models"))).build_model(PROVIDER, record)
    before = memory_mb()
    started = time.perf_counter()
    await model.open()
    load_s = time.perf_counter() - started
    short = [await took_ms(model, [text]) for _ in range(CALLS) for text in SHORT]
    texts = [f"{text} {number}" for number in range(BATCH // len(SHORT)) for text in SHORT]
    batches = [await took_ms(model, texts) for _ in range(BATCHES)]
    memory = memory_mb() - before
    await model.close()
    return {
        "dimensions": model.spec.dim,
        "load_s": round(load_s, 2),
        "memory_mb": round(memory),
        "short_text_ms": summarize(short),
        "texts_per_s_in_batches_of_16": round(BATCH / statistics.median(batches) * 1e3),
    }


async def took_ms(model: AsyncModel, texts: Sequence[str]) -> float:
    started = time.perf_counter()
    await model.embed(texts, TextRole.QUERY)
    return (time.perf_counter() - started) * 1e3


def memory_mb() -> float:
    """Resident, of this process and its children; what the children only map from a file counts once it is read."""
    children = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in ("self", *children))
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main()
