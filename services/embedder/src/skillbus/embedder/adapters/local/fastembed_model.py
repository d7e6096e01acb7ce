"""Any text model that fastembed knows, for those who can reach a model hub."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.file_errors import blamed_on
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec

if TYPE_CHECKING:
    from fastembed import TextEmbedding

_PACKAGE: Final = "fastembed"
_REACHED_WITHIN_S: Final = 5.0
"""fastembed itself tries for more than half a minute."""


def fastembed_revision() -> str:
    """The version of the package, which knows where each model lies.

    Raises:
        ModelUnavailableError: it is not installed.
    """
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError as error:
        raise ModelUnavailableError(
            "this model needs the package fastembed; install skillbus-embedder[fastembed]"
        ) from error


class FastembedModel:
    """Fetched into `cache` when it is first loaded, and read from there afterwards."""

    def __init__(self, spec: ModelSpec, cache: Path, threads: int = 1) -> None:
        """`spec.dim` of 0 takes any width."""
        self.spec: Final = spec
        self._cache = cache
        self._threads = threads
        self._model: TextEmbedding | None = None

    def load(self) -> None:
        """Takes as long as a download of some hundred MB the first time.

        Raises:
            ModelUnavailableError: the package is missing, does not know the model, or reaches no hub.
            ModelFilesBrokenError: the files in the cache are damaged, or make vectors of other dimensions.
        """
        try:
            from fastembed import TextEmbedding  # noqa: PLC0415 - an extra, and it costs memory
        except ImportError as error:
            raise ModelUnavailableError(
                f"{self.spec.name} needs the package fastembed; install skillbus-embedder[fastembed]"
            ) from error
        known = {str(model["model"]).lower(): int(model["dim"]) for model in TextEmbedding.list_supported_models()}
        if self.spec.name.lower() not in known:
            raise ModelUnavailableError(f"fastembed knows no model {self.spec.name}; take one of its list")
        if self.spec.dim not in {0, width := known[self.spec.name.lower()]}:
            raise ModelUnavailableError(
                f"{self.spec.name} makes vectors of {width} dimensions, and {self.spec.dim} are registered"
            )
        self._model = self._cached() or self._fetched()

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        if self._model is None:
            raise ModelUnavailableError("the model is not loaded; call load() first")
        embed = self._model.query_embed if role is TextRole.QUERY else self._model.passage_embed
        rows = np.stack([np.asarray(row, np.float32) for row in embed(list(texts))])
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def _cached(self) -> "TextEmbedding | None":
        """The model without any request to a hub; None if it was not fetched yet."""
        try:
            with blamed_on(self._cache):
                return self._opened(local_files_only=True)
        except ModelFilesBrokenError as error:
            if isinstance(error.__cause__, ValueError | OSError):
                return None
            raise

    def _fetched(self) -> "TextEmbedding":
        _check_hub()
        try:
            return self._opened(local_files_only=False)
        except (ValueError, OSError) as error:
            raise ModelUnavailableError(f"{self.spec.name} could not be fetched: {error}; try again later") from error

    def _opened(self, *, local_files_only: bool) -> "TextEmbedding":
        from fastembed import TextEmbedding  # noqa: PLC0415 - as in `load`

        return TextEmbedding(
            self.spec.name,
            cache_dir=str(self._cache),
            threads=self._threads,
            providers=["CPUExecutionProvider"],
            local_files_only=local_files_only,
            enable_cpu_mem_arena=False,
        )


def _check_hub() -> None:
    """Any answer will do. Raises ModelUnavailableError if there is none in time."""
    from huggingface_hub.constants import ENDPOINT  # noqa: PLC0415 - comes with fastembed

    try:
        with urlopen(Request(ENDPOINT, method="HEAD"), timeout=_REACHED_WITHIN_S):  # noqa: S310 - https, or the operator's
            return
    except HTTPError:
        return
    except OSError as error:
        raise ModelUnavailableError(
            f"the model hub {ENDPOINT} cannot be reached: {error}; let the embedder reach it, name another one by "
            "HF_ENDPOINT, or register a local model"
        ) from error
