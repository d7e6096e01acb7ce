"""A dense embedding model, as the domain sees it."""

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
    """What is known of a model before it is loaded."""

    provider: str
    name: str
    revision: str
    """Changes with the weights: the version of the package, a commit, a digest."""
    preprocessing: str
    """Names what is done to a text or a vector around the model (normal form, prefixes, centring)."""
    dim: int
    max_chars: int
    """What follows in a longer text is not read."""
    batch_tokens: int
    """A batch of more estimated tokens is no faster per text; it only lets others wait."""
    padded: bool
    """True if every text of a batch costs as much as the longest."""
    batch_texts: int = 64
    slots: int = 1
    """Batches at the same time."""
    inline_tokens: int = 0
    """Queries of at most so many estimated tokens together gain more from no thread than others lose by waiting."""

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits of what the vectors depend on: vectors of two fingerprints are never compared."""
        identity = "\x1f".join((self.name, self.revision, self.preprocessing, str(self.dim)))
        return blake2b(identity.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a model made of some texts."""

    rows: NDArray[np.float32]
    """Of length 1, shape (n, dim), in the order of the texts."""
    tokens: int | None = None
    """As the provider counted them; None where nobody counts."""


class EmbeddingModel(Protocol):
    """A model that is asked without blocking: a provider over HTTP, a child process, or a `DenseModel` in threads."""

    @property
    def spec(self) -> ModelSpec: ...

    async def open(self) -> None:
        """Make `embed` ready: load weights, start a process. A provider over HTTP is not asked anything.

        Raises:
            ModelUnavailableError: with what is missing, and where.
        """

    async def embed(self, texts: Sequence[str], role: TextRole) -> Rows:
        """At most `spec.batch_texts` texts, normalised, each at most `spec.max_chars` long.

        Raises:
            TextsRefusedError: some text of these is refused; others would not be.
            ModelUnavailableError: the model cannot be had now. Any other exception is blamed on a text of the batch.
        """

    async def close(self) -> None:
        """End what `open` began; what still runs fails with ModelUnavailableError. Closing again does nothing."""


class DenseModel(Protocol):
    """Blocking; called from worker threads, from several at once if the batcher has several slots."""

    @property
    def spec(self) -> ModelSpec: ...

    def load(self) -> None:
        """Make `embed` ready. Called once, before it.

        Raises:
            ModelUnavailableError: with what is missing, and where.
        """

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        """Rows of length 1, shape (n, dim). Texts are normalised and at most `spec.max_chars` long."""


def estimated_tokens(text: str) -> int:
    """Between 0.6 and 1.6 times the truth for English and Chinese, by UTF-8's bytes; no tokenizer is run for it."""
    return 2 + len(text.encode()) // 4


def checked_rows(rows: NDArray[np.float32], count: int, dim: int) -> NDArray[np.float32]:
    """The rows, if they are `count` finite unit vectors.

    Raises:
        ModelMisbehavedError: they are not.
    """
    if rows.shape != (count, dim):
        raise ModelMisbehavedError(f"the model returned shape {rows.shape} for {count} texts of {dim} dimensions")
    squares = np.einsum("ij,ij->i", rows, rows).tolist()
    if not all(abs(square - 1) < 2 * _NORM_TOLERANCE for square in squares):  # NaN is below nothing
        raise ModelMisbehavedError("the model returned vectors that are not finite or not of length 1")
    return rows


class ModelFactory(Protocol):
    """Makes models from what the registry says of them. Neither method does any input or output."""

    def spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        """What is known of a model without loading it or asking for it; None while its dimensions are unknown.

        Raises:
            ModelUnavailableError: it can never be had as it is registered.
        """
        ...

    def make(self, provider: ProviderRecord, model: ModelRecord) -> EmbeddingModel:
        """The model, not opened. Without `model.dimensions`, it tells them by the width of its rows.

        Raises:
            ModelUnavailableError: it can never be had as it is registered.
        """
        ...
