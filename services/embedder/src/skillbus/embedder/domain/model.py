"""Dense embedding models as the domain sees them: spec, ports, and checks of their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.domain.errors import ModelMisbehavedError

_NORM_TOLERANCE = 1e-3  # float32 rounding in the norm of some hundred numbers stays below 1e-5


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Properties of a model that are known before it is loaded."""

    provider: str
    name: str
    revision: str
    """Identity of the weights: a package version, a commit, a digest."""
    preprocessing: str
    """Description of every change to texts and vectors around the model: normal form, prefixes, centring."""
    dim: int
    max_chars: int
    """Characters of a text that are read; the rest is ignored."""
    batch_tokens: int
    """Estimated tokens of a batch. Larger batches are no faster per text and delay other work."""
    padded: bool
    """True if every text of a batch costs as much as the longest."""
    batch_texts: int = 64
    slots: int = 1
    """Concurrent batches."""
    inline_tokens: int = 0
    """Queries of at most so many estimated tokens are computed in the event loop: a thread would cost more."""

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits of everything the vectors depend on. Vectors of two fingerprints are never compared."""
        identity = "\x1f".join((self.name, self.revision, self.preprocessing, str(self.dim)))
        return blake2b(identity.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedRows:
    """Vectors of some texts."""

    rows: NDArray[np.float32]
    """Rows of length 1, shape (n, dim), in the order of the texts."""
    tokens: int | None = None
    """Tokens as the provider counted them, or None."""


class AsyncModel(Protocol):
    """Model behind an async port: a provider over HTTP, a child process, or a `BlockingModel` in threads."""

    @property
    def spec(self) -> ModelSpec: ...

    async def open(self) -> None:
        """Load weights, or start a process; call no provider. Raises ModelUnavailableError if something is missing."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        """Embed at most `spec.batch_texts` normalised texts, each at most `spec.max_chars` long.

        Raises:
            TextsRefusedError: one of these texts is refused; others would not be.
            ModelUnavailableError: the model cannot be used now. Any other exception is blamed on a text of the batch.
        """

    async def close(self) -> None:
        """Release everything. Running calls fail with ModelUnavailableError. Further calls do nothing."""


class BlockingModel(Protocol):
    """Model that computes in the calling thread. With several slots it is called from several threads at once."""

    @property
    def spec(self) -> ModelSpec: ...

    def load(self) -> None:
        """Load the model, once, before `embed`. Raises ModelUnavailableError if something is missing."""

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        """Return rows of length 1, shape (n, dim), for normalised texts at most `spec.max_chars` long."""


class ModelFactory(Protocol):
    """Builds models from registry records, without I/O.

    Both methods raise ModelUnavailableError if the model can never be used as it is registered.
    """

    def build_spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        """Return the spec of a model without loading or calling it, or None while its dimensions are unknown."""
        ...

    def build_model(self, provider: ProviderRecord, model: ModelRecord) -> AsyncModel:
        """Return the model, not opened. Without `model.dimensions` the width of its rows shows them."""
        ...


def estimate_tokens(text: str) -> int:
    """Estimate tokens from UTF-8 bytes: between 0.6 and 1.6 times the true count for English and Chinese."""
    return 2 + len(text.encode()) // 4


def check_rows(rows: NDArray[np.float32], count: int, dim: int) -> NDArray[np.float32]:
    """Return the rows if they are `count` finite unit vectors; otherwise raise ModelMisbehavedError."""
    if rows.shape != (count, dim):
        raise ModelMisbehavedError(f"the model returned shape {rows.shape} for {count} texts of {dim} dimensions")
    squares = np.einsum("ij,ij->i", rows, rows).tolist()
    if not all(abs(square - 1) < 2 * _NORM_TOLERANCE for square in squares):  # NaN fails every comparison
        raise ModelMisbehavedError("the model returned vectors that are not finite or not of length 1")
    return rows
