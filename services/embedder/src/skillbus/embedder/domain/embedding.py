"""Entry point of the embedder's domain: texts in, dense and sparse vectors out, with the reason for what is missing."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import EmbedTexts, SkippedModel, TextRole
from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError, ModelUnknownError
from skillbus.embedder.domain.inference.batcher import BatchedRows
from skillbus.embedder.domain.inference.model_pool import ModelPool
from skillbus.embedder.domain.registry.snapshot import RegisteredModel, RegistrySnapshot
from skillbus.relevance.lexical.encoder import LexicalEncoder, LexicalVector

_INLINE_CHARS: Final = 2048  # encoded in the event loop, in about a millisecond; more goes to a thread
_SHARE: Final = 0.5
"""Share of the remaining time for a model that has a successor in the chain."""
_LAST_SHARE: Final = 0.9
"""Share for the last model if sparse vectors would do. The rest is for the reply and for the caller's own work."""
_FINGERPRINT: Final = re.compile("[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingResult:
    """Vectors in the order of the texts. `dense` has shape (n, dim) and rows of length 1."""

    dense: NDArray[np.float32] | None = None
    sparse: tuple[LexicalVector, ...] | None = None
    model: RegisteredModel | None = None
    """Model of the dense vectors, if there are any."""
    tokens: int = 0
    skipped: tuple[SkippedModel, ...] = ()
    degraded: str | None = None
    """Reason why requested dense vectors are missing."""


class EmbeddingService:
    """Tries the models of the registry in order until one answers. Sparse vectors remain when none does."""

    def __init__(
        self, load_snapshot: Callable[[], Awaitable[RegistrySnapshot]], pool: ModelPool, lexical: LexicalEncoder
    ) -> None:
        self._load_snapshot = load_snapshot
        self._seen: RegistrySnapshot | None = None
        self._pool = pool
        self._lexical = lexical

    async def check_default(self) -> tuple[str, str | None]:
        """Start to open the default model. Return its name, and the reason why it is not ready, or None."""
        snapshot = await self._refresh_snapshot()
        if not snapshot.chain:
            return "", _explain_empty_chain(None)
        first = snapshot.chain[0]
        try:
            await self._pool.open_batcher(first, wait_s=0)
        except (ModelUnavailableError, EmbedderClosedError) as error:
            return first.model.name, str(error)
        return first.model.name, None

    async def embed_request(
        self, request: EmbedTexts, *, load_wait_s: float | None = None, within_s: float | None = None
    ) -> EmbeddingResult:
        """Embed texts. Without a usable model, return the sparse vectors and the reason if sparse ones are requested.

        `load_wait_s` is the longest wait for a model that is loading, `within_s` the time until the caller's deadline;
        None sets no limit.

        Raises:
            ModelUnavailableError: only dense vectors are requested, and no model is usable.
            ModelUnknownError: no model of that name is registered; or only dense vectors are requested, and no model
                has that fingerprint.
            OverloadedError, TextNotEmbeddableError, EmbedderClosedError: see `Batcher.embed_texts`.
        """
        sparse = await self._encode_sparse(request) if request.sparse else None
        if not request.dense:
            return EmbeddingResult(sparse=sparse)
        loop = asyncio.get_running_loop()
        deadline = None if within_s is None else loop.time() + within_s
        skipped: list[SkippedModel] = []
        candidates = await self._list_candidates(request.model)
        for place, model in enumerate(candidates, start=1):
            share = _SHARE if place < len(candidates) else _LAST_SHARE if sparse is not None else 1.0
            try:
                share_s = None if deadline is None else max(0.0, deadline - loop.time()) * share
                batched = await self._embed_within(share_s, model, request, load_wait_s)
            except ModelUnavailableError as error:
                skipped.append(SkippedModel(provider=model.provider.name, name=model.model.name, reason=str(error)))
                continue
            return EmbeddingResult(batched.rows, sparse, model, batched.tokens, tuple(skipped))
        reason = "; ".join(one.reason for one in skipped) or _explain_empty_chain(request.model)
        if sparse is None:
            if request.model is not None and not candidates:
                raise ModelUnknownError(request.model)
            raise ModelUnavailableError(reason)
        structlog.get_logger().warning("embedding_degraded", degraded="lexical", model=request.model, reason=reason)
        return EmbeddingResult(sparse=sparse, skipped=tuple(skipped), degraded=reason)

    async def _refresh_snapshot(self) -> RegistrySnapshot:
        """Load the snapshot, and retire models that are no longer registered."""
        snapshot = await self._load_snapshot()
        if snapshot is not self._seen:
            self._seen = snapshot
            self._pool.retain_models(snapshot.chain)
        return snapshot

    async def _list_candidates(self, reference: str | None) -> tuple[RegisteredModel, ...]:
        """Return the chain, or the named model; nothing for a fingerprint that no model has any more."""
        snapshot = await self._refresh_snapshot()
        if reference is None:
            return snapshot.chain
        found = snapshot.find_enabled(reference)
        if found is None and not _FINGERPRINT.fullmatch(reference):
            raise ModelUnknownError(reference)
        return (found,) if found else ()

    async def _embed_within(
        self, within_s: float | None, model: RegisteredModel, request: EmbedTexts, load_wait_s: float | None
    ) -> BatchedRows:
        """Embed with one model. After the timeout the model goes on, and its late vectors are cached."""
        try:
            async with asyncio.timeout(within_s):
                try:
                    batcher = await self._pool.open_batcher(model, load_wait_s)
                    return await batcher.embed_texts(request.texts, request.role)
                except EmbedderClosedError:  # just replaced: the pool has the new one, or is closed itself
                    batcher = await self._pool.open_batcher(model, load_wait_s)
                    return await batcher.embed_texts(request.texts, request.role)
        except TimeoutError as error:
            raise ModelUnavailableError(
                f"model {model.model.name} gave no vectors within {within_s:.1f} s of the caller's deadline"
            ) from error

    async def _encode_sparse(self, request: EmbedTexts) -> tuple[LexicalVector, ...]:
        texts = request.sparse_texts or request.texts

        def encode() -> tuple[LexicalVector, ...]:
            if request.role is TextRole.QUERY:
                return tuple(map(self._lexical.encode_query, texts))
            asides = request.asides or [""] * len(texts)
            encoder = self._lexical.with_average_terms(request.mean_terms)
            return tuple(map(encoder.encode_document, texts, asides))

        if sum(map(len, texts)) + sum(map(len, request.asides)) <= _INLINE_CHARS:
            return encode()
        return await asyncio.to_thread(encode)


def _explain_empty_chain(reference: str | None) -> str:
    if reference is None:
        return "no model is enabled; enable one with `update_model`"
    return f"no registered model makes vectors of fingerprint {reference}"
