"""Text models of fastembed, for installations that can reach a model hub."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.onnx.files import blame_file
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec

if TYPE_CHECKING:
    from fastembed import TextEmbedding

_PACKAGE: Final = "fastembed"
_HUB_TIMEOUT_S: Final = 5.0
"""fastembed itself keeps trying for more than half a minute."""


def get_fastembed_revision() -> str:
    """Return the package version, which determines the files. Raises ModelUnavailableError if it is not installed."""
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError as error:
        raise ModelUnavailableError(
            "this model needs the package fastembed; install skillbus-embedder[fastembed]"
        ) from error


class FastembedModel:
    """Implementation of `BlockingModel`. The first load downloads the model into `cache`."""

    def __init__(self, spec: ModelSpec, cache: Path, threads: int = 1) -> None:
        """Use `threads` for one call. A `spec.dim` of 0 accepts any width."""
        self.spec: Final = spec
        self._cache = cache
        self._threads = threads
        self._model: TextEmbedding | None = None

    def load(self) -> None:
        """Load the model. The first time that downloads some hundred MB.

        Raises:
            ModelUnavailableError: the package is missing, does not know the model, or cannot reach the hub.
            ModelFilesBrokenError: the files in the cache are damaged.
        """
        try:
            from fastembed import TextEmbedding  # noqa: PLC0415 - an extra, and it costs memory
        except ImportError as error:
            raise ModelUnavailableError(
                f"{self.spec.name} needs the package fastembed; install skillbus-embedder[fastembed]"
            ) from error
        known = {str(model["model"]).lower(): int(model["dim"]) for model in TextEmbedding.list_supported_models()}
        if self.spec.name.lower() not in known:
            raise ModelUnavailableError(f"fastembed knows no model {self.spec.name}; choose one of its list")
        if self.spec.dim not in {0, width := known[self.spec.name.lower()]}:
            raise ModelUnavailableError(
                f"{self.spec.name} gives vectors of {width} dimensions, and {self.spec.dim} are registered"
            )
        self._model = self._load_cached()
        if self._model is not None:
            return
        _check_hub()
        try:
            self._model = self._build_model(local_files_only=False)
        except (ValueError, OSError) as error:
            raise ModelUnavailableError(
                f"{self.spec.name} could not be downloaded: {error}; try again later"
            ) from error

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        if self._model is None:
            raise ModelUnavailableError("the model is not loaded; call load() first")
        embed = self._model.query_embed if role is TextRole.QUERY else self._model.passage_embed
        rows = np.stack([np.asarray(row, np.float32) for row in embed(list(texts))])
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def _load_cached(self) -> "TextEmbedding | None":
        """Load the model without a request to the hub, or return None if it was not downloaded yet."""
        try:
            with blame_file(self._cache):
                return self._build_model(local_files_only=True)
        except ModelFilesBrokenError as error:
            if isinstance(error.__cause__, ValueError | OSError):
                return None
            raise

    def _build_model(self, *, local_files_only: bool) -> "TextEmbedding":
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
    """Raise ModelUnavailableError unless the hub answers in time, with any status."""
    from huggingface_hub.constants import ENDPOINT  # noqa: PLC0415 - comes with fastembed

    try:
        with urlopen(Request(ENDPOINT, method="HEAD"), timeout=_HUB_TIMEOUT_S):  # noqa: S310 - https, or the operator's
            return
    except HTTPError:
        return
    except OSError as error:
        raise ModelUnavailableError(
            f"the model hub {ENDPOINT} cannot be reached: {error}; give the embedder access, name another hub "
            "with HF_ENDPOINT, or register a local model"
        ) from error
