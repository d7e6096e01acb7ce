"""The embedder's one entry: texts in, dense and sparse vectors out, and the truth about what could not be had."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError, ModelUnknownError
from skillbus.embedder.domain.inference.batcher import Batched
from skillbus.embedder.domain.inference.lanes import Priority
from skillbus.embedder.domain.inference.model_pool import ModelPool
from skillbus.embedder.domain.registry.snapshot import Registered, RegisteredModel
from skillbus.relevance.lexical.encoder import LexicalEncoder, LexicalVector

_INLINE_CHARS: Final = 2048  # of text for the lexical encoder, about a millisecond; more goes to a thread
_SHARE: Final = 0.5
"""Of the time that is left, for a model after which there is another."""
_LAST_SHARE: Final = 0.9
"""For the last one where words alone would do; what is left of the time is for the reply and for who uses it."""
_FINGERPRINT: Final = re.compile("[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for beside the texts."""

    role: TextRole
    priority: Priority
    dense: bool = True
    sparse: bool = False
    model: str | None = None
    """Fingerprint, name or `provider/name`; the chain if None."""
    load_wait_s: float | None = None
    """How long a model that is being loaded is waited for, in seconds; for ever if None."""
    within_s: float | None = None
    """How long whoever asks waits for all of it, in seconds; None if he does not say."""
    sparse_texts: Sequence[str] = ()
    """Texts to give sparse vectors of, in place of those to embed."""
    asides: Sequence[str] = ()
    """What is said beside each text, for sparse vectors of documents; none, or one a text."""
    mean_terms: float | None = None
    """Of documents of their kind; that of the encoder if None."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A model that could not be had."""

    provider: str
    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class Timings:
    """Of the slowest text of a request; `cached` counts texts whose dense vector was there."""

    queue_ms: float = 0.0
    inference_ms: float = 0.0
    cached: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """In the order of the texts. `dense` has shape (n, dim) and rows of length 1."""

    dense: NDArray[np.float32] | None = None
    sparse: tuple[LexicalVector, ...] | None = None
    model: RegisteredModel | None = None
    """Whose dense vectors these are; None without dense vectors."""
    timings: Timings = Timings()
    tokens: int = 0
    skipped: tuple[Skipped, ...] = ()
    degraded: str | None = None
    """Why there are no dense vectors although they were asked for: the sparse ones have to do."""


class EmbeddingService:
    """Asks the models of the registry, one after the other until one answers; after the last only words remain."""

    def __init__(
        self, registered: Callable[[], Awaitable[Registered]], pool: ModelPool, lexical: LexicalEncoder
    ) -> None:
        """`registered` gives what is registered now; it is asked for every request."""
        self._read = registered
        self._seen: Registered | None = None
        self._pool = pool
        self._lexical = lexical

    async def preload(self) -> None:
        """Begin to open the default model."""
        registered = await self._registered()
        if registered.chain:
            await self._ready(registered.chain[0], wait_s=0)

    async def default(self) -> tuple[str, str | None]:
        """Name of the default model, and why it gives no vectors now; None when it does."""
        registered = await self._registered()
        if not registered.chain:
            return "", _nothing_to_try(None)
        first = registered.chain[0]
        return first.model.name, await self._ready(first, wait_s=0)

    async def embed(self, texts: Sequence[str], wanted: Wanted) -> Embedded:
        """Embed texts; a model that is not there leaves the sparse vectors and a reason, if sparse ones are wanted.

        Raises:
            ModelUnavailableError: only dense vectors are wanted and no model can be had.
            ModelUnknownError: no model of that name is registered.
            OverloadedError, TextNotEmbeddableError, EmbedderClosedError: see `Batcher.embed`.
        """
        sparse = await self._encode(wanted.sparse_texts or texts, wanted) if wanted.sparse else None
        if not wanted.dense:
            return Embedded(sparse=sparse)
        until = None if wanted.within_s is None else asyncio.get_running_loop().time() + wanted.within_s
        skipped: list[Skipped] = []
        candidates = await self._candidates(wanted.model)
        for place, model in enumerate(candidates, start=1):
            share = _SHARE if place < len(candidates) else _LAST_SHARE if sparse is not None else 1.0
            try:
                made = await self._ask_within(_share_of(until, share), model, texts, wanted)
            except ModelUnavailableError as error:
                skipped.append(Skipped(model.provider.name, model.model.name, str(error)))
                continue
            timings = Timings(made.queue_ms, made.inference_ms, made.cached)
            return Embedded(made.rows, sparse, model, timings, made.tokens, tuple(skipped))
        return self._without_dense(sparse, tuple(skipped), wanted.model)

    async def _registered(self) -> Registered:
        """What is registered now; models that are so no longer are closed at once."""
        registered = await self._read()
        if registered is not self._seen:
            self._seen = registered
            self._pool.keep(registered.chain)
        return registered

    async def _candidates(self, wanted: str | None) -> tuple[RegisteredModel, ...]:
        """The chain, or the one model that is named; none for a fingerprint that is nobody's any more."""
        registered = await self._registered()
        if wanted is None:
            return registered.chain
        found = registered.find(wanted)
        if found is None and not _FINGERPRINT.fullmatch(wanted):
            raise ModelUnknownError(wanted)
        return (found,) if found else ()

    async def _ask_within(
        self, seconds: float | None, model: RegisteredModel, texts: Sequence[str], wanted: Wanted
    ) -> Batched:
        """As `_ask`; who was asked goes on, and what he answers later is cached."""
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(model, texts, wanted)
        except TimeoutError as error:
            raise ModelUnavailableError(
                f"model {model.model.name} gave no vectors within {seconds:.1f} s, and the caller waits no longer"
            ) from error

    async def _ask(self, model: RegisteredModel, texts: Sequence[str], wanted: Wanted) -> Batched:
        batcher = await self._pool.batcher(model, wanted.load_wait_s)
        try:
            return await batcher.embed(texts, wanted.role, wanted.priority)
        except EmbedderClosedError:  # it was replaced just now: the pool has the new one, or is closed itself
            batcher = await self._pool.batcher(model, wanted.load_wait_s)
            return await batcher.embed(texts, wanted.role, wanted.priority)

    async def _ready(self, model: RegisteredModel, wait_s: float) -> str | None:
        try:
            await self._pool.batcher(model, wait_s)
        except (ModelUnavailableError, EmbedderClosedError) as error:
            return str(error)
        return None

    def _without_dense(
        self, sparse: tuple[LexicalVector, ...] | None, skipped: tuple[Skipped, ...], wanted: str | None
    ) -> Embedded:
        reason = "; ".join(one.reason for one in skipped) or _nothing_to_try(wanted)
        if sparse is None:
            raise ModelUnavailableError(reason)
        structlog.get_logger().warning("embedding_degraded", degraded="lexical", wanted=wanted, reason=reason)
        return Embedded(sparse=sparse, skipped=skipped, degraded=reason)

    async def _encode(self, texts: Sequence[str], wanted: Wanted) -> tuple[LexicalVector, ...]:
        def encode() -> tuple[LexicalVector, ...]:
            if wanted.role is TextRole.QUERY:
                return tuple(map(self._lexical.encode_query, texts))
            asides = wanted.asides or [""] * len(texts)
            return tuple(map(self._lexical.with_average_terms(wanted.mean_terms).encode_document, texts, asides))

        if sum(map(len, texts)) + sum(map(len, wanted.asides)) <= _INLINE_CHARS:
            return encode()
        return await asyncio.to_thread(encode)


def _share_of(until: float | None, share: float) -> float | None:
    """Seconds from now. Past `until` nobody waits, and a request that goes on keeps a place from others."""
    if until is None:
        return None
    return max(0.0, until - asyncio.get_running_loop().time()) * share


def _nothing_to_try(wanted: str | None) -> str:
    if wanted is None:
        return "no model is enabled; enable one with `update_model`"
    return f"no registered model makes vectors of fingerprint {wanted}"
