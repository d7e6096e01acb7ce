"""One batch through a model."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import EmbeddingModel, Rows, checked_rows, estimated_tokens


@dataclass(frozen=True, slots=True)
class TextOutcome:
    """The row of one text, or the model's error on it alone."""

    row: NDArray[np.float32] | None
    error: Exception | None
    inference_ms: float
    """Of the call that decided it."""
    tokens: float = 0.0
    """Its share of those that the provider counted, by the estimate of its own; or that estimate."""


async def infer(model: EmbeddingModel, texts: Sequence[str], role: TextRole) -> list[TextOutcome]:
    """An outcome for each text; never raises what the model raises.

    A batch that dies is halved until the texts that kill it are alone: 2·log2(n) calls for one bad text among n. When
    the model itself cannot be had no text is to blame, and none is tried again.
    """
    started = time.perf_counter()
    try:
        made = await model.embed(texts, role)
        rows = checked_rows(made.rows, len(texts), model.spec.dim)
        tokens = _tokens_of(texts, made)
    except ModelUnavailableError as error:
        return [TextOutcome(None, error, _ms_since(started))] * len(texts)
    except Exception as error:  # noqa: BLE001 - a model's own errors are of any class
        return await _halves(model, texts, role, error, _ms_since(started))
    took = _ms_since(started)
    return [TextOutcome(_detached(row), None, took, its) for row, its in zip(rows, tokens, strict=True)]


async def _halves(
    model: EmbeddingModel, texts: Sequence[str], role: TextRole, error: Exception, inference_ms: float
) -> list[TextOutcome]:
    structlog.get_logger().warning(
        "embedding_batch_died", batch_texts=len(texts), model=model.spec.name, inference_ms=inference_ms, exc_info=error
    )
    if len(texts) == 1:
        return [TextOutcome(None, error, inference_ms)]
    middle = len(texts) // 2
    return await infer(model, texts[:middle], role) + await infer(model, texts[middle:], role)


def _tokens_of(texts: Sequence[str], made: Rows) -> list[float]:
    estimates = [float(estimated_tokens(text)) for text in texts]
    if made.tokens is None:
        return estimates
    share = made.tokens / sum(estimates)
    return [estimate * share for estimate in estimates]


def _detached(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """A copy that nobody can change: a view would keep its whole batch in memory while the cache keeps the row."""
    own = row.copy()
    own.setflags(write=False)
    return own


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
