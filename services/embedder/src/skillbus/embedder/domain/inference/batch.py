"""Execution of one batch, with bisection if the model fails on it."""

import time
from collections.abc import Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.inference.lanes import JobOutcome
from skillbus.embedder.domain.model import AsyncModel, EmbeddedRows, check_rows, estimate_tokens


async def run_batch(model: AsyncModel, texts: Sequence[str], role: TextRole) -> list[JobOutcome]:
    """Embed a batch and return one outcome per text. Errors of the model are outcomes, never raised.

    A failing batch is halved until the texts at fault are alone: 2·log2(n) calls for one bad text among n. If the model
    itself is unavailable, no text is at fault and none is tried again.
    """
    started = time.perf_counter()
    try:
        embedded = await model.embed(texts, role)
        rows = check_rows(embedded.rows, len(texts), model.spec.dim)
        tokens = _share_tokens(texts, embedded)
    except ModelUnavailableError as error:
        return [JobOutcome(None, error, _elapsed_ms(started))] * len(texts)
    except Exception as error:  # noqa: BLE001 - models raise errors of any class
        inference_ms = _elapsed_ms(started)
        structlog.get_logger().warning(
            "embedding_batch_failed",
            batch_texts=len(texts),
            model=model.spec.name,
            inference_ms=inference_ms,
            exc_info=error,
        )
        if len(texts) == 1:
            return [JobOutcome(None, error, inference_ms)]
        middle = len(texts) // 2
        return await run_batch(model, texts[:middle], role) + await run_batch(model, texts[middle:], role)
    inference_ms = _elapsed_ms(started)
    return [JobOutcome(_copy_row(row), None, inference_ms, count) for row, count in zip(rows, tokens, strict=True)]


def _share_tokens(texts: Sequence[str], embedded: EmbeddedRows) -> list[float]:
    """Split the provider's token count over the texts by their estimates. Without a count, return the estimates."""
    estimates = [float(estimate_tokens(text)) for text in texts]
    if embedded.tokens is None:
        return estimates
    share = embedded.tokens / sum(estimates)
    return [estimate * share for estimate in estimates]


def _copy_row(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a read-only copy: a view would keep its whole batch in memory as long as the cache keeps the row."""
    own = row.copy()
    own.setflags(write=False)
    return own


def _elapsed_ms(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
