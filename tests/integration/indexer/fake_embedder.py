"""An embedder on the bus whose models know only whether two texts are the same, and which does what a test says."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import numpy as np

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbeddingModel, EmbedTexts, SparseVector, TextsEmbedded
from skillbus.contracts.embedder.registry import (
    DEFAULT_MODEL_CHANGED,
    GET_DEFAULT_MODEL,
    DefaultModelChanged,
    ModelRecord,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import DEFAULT_PROJECT, Empty, FloatMatrix

DIMENSIONS = {"aaaa": 16, "bbbb": 24, "cccc": 12}
"""Of the models, by fingerprint; they are named after it."""


def vector(fingerprint: str, text: str) -> list[float]:
    """What a model makes of a text."""
    seed = int.from_bytes(hashlib.sha256(f"{fingerprint}:{text}".encode()).digest()[:8], "little")
    numbers = np.random.default_rng(seed).standard_normal(DIMENSIONS[fingerprint])
    return [float(number) for number in (numbers / np.linalg.norm(numbers)).astype(np.float32)]


@dataclass
class FakeEmbedder:
    """What it says, and what it was asked."""

    default: str | None = "aaaa"
    """Fingerprint of the default model; None: there is no model."""
    without_dense: set[str] = field(default_factory=set)
    """Models that cannot be had."""
    down: bool = False
    """Every request fails."""
    delay_s: float = 0.0
    embedded: dict[str, int] = field(default_factory=dict)
    """Texts that each model was given."""
    going: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared to hold texts for the models in `held`."""
    held: set[str] = field(default_factory=set)
    _changes: count = field(default_factory=count)  # type: ignore[type-arg]

    def __post_init__(self) -> None:
        self.going.set()

    async def get_default_model(self, _: Empty) -> ModelRecord:
        self._check()
        if self.default is None:
            raise RequestError(ErrorCode.MODEL_UNAVAILABLE, "there is no model")
        now = datetime.now(UTC)
        return ModelRecord(
            id="0" * 32,
            provider="local",
            name=f"model-{self.default}",
            is_default=True,
            fingerprint=self.default,
            dimensions=DIMENSIONS[self.default],
            version=1,
            created_at=now,
            updated_at=now,
        )

    async def embed_texts(self, request: EmbedTexts) -> TextsEmbedded:
        self._check()
        sparse = tuple(_sparse(text) for text in request.texts) if request.sparse else None
        if not request.dense:
            return TextsEmbedded(model=None, sparse=sparse)
        fingerprint = request.model or self.default or ""
        await asyncio.sleep(self.delay_s)
        if fingerprint in self.held:
            await self.going.wait()
        self._check()
        if fingerprint not in DIMENSIONS or fingerprint in self.without_dense:
            raise RequestError(ErrorCode.MODEL_UNAVAILABLE, f"{fingerprint} cannot be had")
        self.embedded[fingerprint] = self.embedded.get(fingerprint, 0) + len(request.texts)
        rows = np.array([vector(fingerprint, text) for text in request.texts], dtype="<f4")
        model = EmbeddingModel(
            provider="local", name=f"model-{fingerprint}", fingerprint=fingerprint, dimensions=rows.shape[1]
        )
        dense = FloatMatrix(dim=rows.shape[1], count=rows.shape[0], data=rows.tobytes())
        return TextsEmbedded(model=model, dense=dense, sparse=sparse)

    async def make_default(self, bus: Bus, fingerprint: str) -> None:
        """Another default model, announced."""
        self.default = fingerprint
        fact = DefaultModelChanged(
            id="0" * 32,
            provider="local",
            name=f"model-{fingerprint}",
            fingerprint=fingerprint,
            dimensions=DIMENSIONS[fingerprint],
        )
        await publish_event(
            bus,
            DEFAULT_MODEL_CHANGED,
            fact,
            identity=fingerprint,
            message_id=f"default:{next(self._changes)}",
            project=DEFAULT_PROJECT,
        )

    def _check(self) -> None:
        if self.down:
            raise RequestError(ErrorCode.UNAVAILABLE, "the embedder is down")


def _sparse(text: str) -> SparseVector:
    words = {int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little") for word in text.lower().split()}
    return SparseVector(indices=tuple(sorted(words)), values=(1.0,) * len(words))


@asynccontextmanager
async def open_fake_embedder(bus: Bus) -> AsyncGenerator[FakeEmbedder]:
    """It answers while the context is open."""
    fake = FakeEmbedder()
    routes = [route(EMBED_TEXTS, fake.embed_texts), route(GET_DEFAULT_MODEL, fake.get_default_model)]
    async with serve_routes(bus, "embedder", routes, ServiceHealth("embedder"), lambda _: None):
        try:
            yield fake
        finally:
            fake.going.set()
