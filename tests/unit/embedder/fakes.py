"""A model whose pace and failures a test decides, and a registry of such models."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.domain.model import EmbeddedRows, ModelSpec
from skillbus.embedder.domain.registry.snapshot import RegisteredModel, RegistrySnapshot

WAIT_S = 5.0
SPEC = ModelSpec("local", "fake", "1", "nfkc", dim=8, max_chars=100, batch_tokens=1000, padded=False)
_NOW = datetime(2026, 11, 22, tzinfo=UTC)


def vector_of(text: str) -> NDArray[np.float32]:
    raw = np.random.default_rng(list(text.encode())).normal(size=SPEC.dim)
    return (raw / np.linalg.norm(raw)).astype(np.float32)


class FakeModel:
    """Notes every batch. After `hold()` each call waits for `release_all()`; texts in `poison` kill their batch."""

    def __init__(self, poison: Sequence[str] = (), open_error: Exception | None = None, spec: ModelSpec = SPEC) -> None:
        self.spec = spec
        self.batches: list[list[str]] = []
        self.poison = frozenset(poison)
        self.open_error = open_error
        self.gone: Exception | None = None
        """What every call raises."""
        self.returned: NDArray[np.float32] | None = None
        self.counted: int | None = None
        self.closed = False
        self.entered = asyncio.Semaphore(0)
        self._go_on = asyncio.Event()
        self._go_on.set()

    def hold(self) -> None:
        self._go_on.clear()

    def release_all(self) -> None:
        self._go_on.set()

    async def open(self) -> None:
        await self._go_on.wait()
        if self.open_error is not None:
            raise self.open_error

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        self.batches.append(list(texts))
        self.entered.release()
        await self._go_on.wait()
        if self.gone is not None:
            raise self.gone
        if self.poison.intersection(texts):
            raise RuntimeError("poisoned")
        rows = self.returned if self.returned is not None else np.stack([vector_of(text) for text in texts])
        return EmbeddedRows(rows, self.counted)

    async def close(self) -> None:
        self.closed = True


def registered_model(name: str, *, is_default: bool = False, api_path: str | None = None) -> RegisteredModel:
    """A local model of this name, with a fingerprint of its own."""
    spec = ModelSpec("local", name, "1", "nfkc", dim=8, max_chars=100, batch_tokens=1000, padded=False)
    provider = ProviderRecord(name="local", kind=ProviderKind.LOCAL, version=1, created_at=_NOW, updated_at=_NOW)
    model = ModelRecord(
        id=name.encode().hex().ljust(32, "0")[:32],
        provider="local",
        name=name,
        is_default=is_default,
        api_path=api_path,
        dimensions=8,
        fingerprint=spec.fingerprint,
        version=1,
        created_at=_NOW,
        updated_at=_NOW,
    )
    return RegisteredModel(provider, model, spec)


class FakeRegistry:
    """What is registered, as a test changes it; and the models behind it, by name."""

    def __init__(self, **models: FakeModel) -> None:
        self.models = models
        self.made: list[str] = []
        self.now = self.of(*(registered_model(name, is_default=place == 0) for place, name in enumerate(models)))

    @staticmethod
    def of(*models: RegisteredModel) -> RegistrySnapshot:
        return RegistrySnapshot({model.provider.name: model.provider for model in models}, models)

    async def __call__(self) -> RegistrySnapshot:
        return self.now

    def make(self, registered: RegisteredModel) -> FakeModel:
        self.made.append(registered.model.name)
        return self.models[registered.model.name]
