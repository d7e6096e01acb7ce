"""A dense model whose pace and failures a test decides."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder import Role
from skillbus.embedder.domain.model import ModelSpec

WAIT_S = 5.0
SPEC = ModelSpec("local", "fake", "1", "nfkc", dim=8, max_chars=100, batch_tokens=1000, padded=False)


def vector_of(text: str) -> NDArray[np.float32]:
    raw = np.random.default_rng(list(text.encode())).normal(size=SPEC.dim)
    return (raw / np.linalg.norm(raw)).astype(np.float32)


class FakeModel:
    """Notes every batch. `held()` makes each call wait for `release()`; texts in `poison` kill their batch."""

    def __init__(self, poison: Sequence[str] = (), load_error: Exception | None = None) -> None:
        self.batches: list[list[str]] = []
        self.poison = frozenset(poison)
        self.load_error = load_error
        self.returned: NDArray[np.float32] | None = None
        self._gate = threading.Semaphore(0)
        self._open = threading.Event()
        self._open.set()
        self.entered = threading.Semaphore(0)

    @property
    def spec(self) -> ModelSpec:
        return SPEC

    def hold(self) -> None:
        self._open.clear()

    def release_one(self) -> None:
        self._gate.release()

    def release_all(self) -> None:
        self._open.set()
        self._gate.release()

    def load(self) -> None:
        self._pass_gate()
        if self.load_error is not None:
            raise self.load_error

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        self.entered.release()
        self._pass_gate()
        if self.poison.intersection(texts):
            raise RuntimeError("poisoned")
        if self.returned is not None:
            return self.returned
        return np.stack([vector_of(text) for text in texts])

    def _pass_gate(self) -> None:
        if not self._open.is_set():
            assert self._gate.acquire(timeout=WAIT_S), "the test never released the model"
