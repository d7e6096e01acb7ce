"""What stands around a registry: a factory of models, others who are told, and a feed of their changes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import DefaultModelChanged, ModelRecord, ProviderRecord
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import EmbeddedRows, ModelSpec
from skillbus.embedder.domain.registry.ports import Records, RegistryStore
from skillbus.embedder.domain.registry.registry import Registry

KNOWN = {"use-multilingual-v3": 512, "all-MiniLM-L6-v2": 384}
"""Local models whose dimensions nobody has to ask for."""


class FakeModel:
    """Gives rows of `width`, or fails."""

    def __init__(self, spec: ModelSpec, factory: "FakeFactory") -> None:
        self.spec = spec
        self._factory = factory

    async def open(self) -> None:
        self._factory.open += 1

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        self._factory.asked.append((self.spec.name, *texts))
        self._factory.entered.set()
        if self._factory.held is not None:
            await self._factory.held.wait()
        if self._factory.error is not None:
            raise self._factory.error
        return EmbeddedRows(np.eye(len(texts), self._factory.width, dtype=np.float32))

    async def close(self) -> None:
        self._factory.open -= 1


@dataclass
class FakeFactory:
    """Knows the dimensions of local models; others have to be asked."""

    width: int = 8
    error: Exception | None = None
    """Raised by every model that is asked."""
    never: set[str] = field(default_factory=set)
    """Models that can never be had."""
    held: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    open: int = 0

    def build_spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        if model.name in self.never:
            raise ModelUnavailableError(f"{model.name} is not installed here")
        dim = model.dimensions or KNOWN.get(model.name)
        return None if dim is None else _spec(provider, model, dim)

    def build_model(self, provider: ProviderRecord, model: ModelRecord) -> FakeModel:
        if model.name in self.never:
            raise ModelUnavailableError(f"{model.name} is not installed here")
        return FakeModel(_spec(provider, model, model.dimensions or 1), self)


def _spec(provider: ProviderRecord, model: ModelRecord, dim: int) -> ModelSpec:
    return ModelSpec(provider.name, model.name, "1", model.query_prefix, dim, 100, 1000, padded=False)


@dataclass
class FakeChanges:
    """Notes what is told, in order; fails with `error`."""

    told: list[str] = field(default_factory=list)
    facts: list[DefaultModelChanged] = field(default_factory=list)
    error: Exception | None = None
    held: asyncio.Event | None = None

    async def announce_change(self) -> None:
        await self._tell("changed")

    async def announce_default(self, fact: DefaultModelChanged) -> None:
        await self._tell("default_changed")
        self.facts.append(fact)

    async def _tell(self, what: str) -> None:
        if self.held is not None:
            await self.held.wait()
        if self.error is not None:
            raise self.error
        self.told.append(what)


class FakeFeed:
    """A feed that a test moves."""

    def __init__(self) -> None:
        self.heard = 0

    @property
    def position(self) -> int:
        return self.heard

    async def wait_until_listening(self) -> None:
        return


class MemoryStore:
    """Records in memory. `error` is raised by every read, `held` lets reads wait, `steals` makes others come first."""

    def __init__(self) -> None:
        self.records = Records(0)
        self.loads = 0
        self.error: Exception | None = None
        self.held: asyncio.Event | None = None
        self.steals = 0

    async def load(self) -> Records:
        self.loads += 1
        seen = self.records
        if self.held is not None:
            await self.held.wait()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return seen

    async def replace(self, seen: Records, new: Records) -> bool:
        await asyncio.sleep(0)
        if self.steals:
            self.steals -= 1
            self.records = Records(self.records.revision + 1, self.records.providers, self.records.models)
        if self.records.revision != seen.revision:
            return False
        self.records = Records(seen.revision + 1, new.providers, new.models)
        return True


@dataclass
class Replica:
    """A registry and what stands around it."""

    registry: Registry
    factory: FakeFactory
    changes: FakeChanges
    feed: FakeFeed
    clock: "FakeClock"


@dataclass
class FakeClock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def replica(store: RegistryStore, announce_timeout_s: float = 5.0) -> Replica:
    factory, changes, feed, clock = FakeFactory(), FakeChanges(), FakeFeed(), FakeClock()
    registry = Registry(store, factory, changes, feed, clock, announce_timeout_s)
    return Replica(registry, factory, changes, feed, clock)
