"""Models of a provider of kind `local`: their specs, and how they are built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import LocalRuntime, ModelRecord, ProviderRecord
from skillbus.embedder.adapters.local.e5.model import (
    Centring,
    E5Model,
    build_e5_spec,
    load_e5_centring,
    locate_e5_model,
)
from skillbus.embedder.adapters.local.e5.process import E5Program
from skillbus.embedder.adapters.local.fastembed_model import FastembedModel, get_fastembed_revision
from skillbus.embedder.adapters.local.onnx.files import MINILM_DIM, DigestCache, OnnxFiles
from skillbus.embedder.adapters.local.onnx.model import OnnxModel
from skillbus.embedder.adapters.local.threaded import ThreadedModel
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.domain.errors import ModelRecordInvalidError, ModelUnavailableError
from skillbus.embedder.domain.model import AsyncModel, EmbeddedRows, ModelSpec

_RUNTIMES: Final[Mapping[str, LocalRuntime]] = {
    "use-multilingual-v3": LocalRuntime.USE,
    "multilingual-e5-small": LocalRuntime.E5,
}
"""Runtimes by model name. Any other name is an ONNX model."""
_MAX_CHARS: Final = 2048
_BATCH_TOKENS: Final = 256
"""Measured with MiniLM: 5,700 tokens/s in a batch of 8 texts of 20 tokens, no more in larger batches or texts."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings that are not in the registry."""

    models_folder: Path
    """Folder of the ONNX model directories and the downloads of fastembed."""
    threads: int = 1
    """Threads of one call of a model."""
    slots: int = 1
    """Concurrent calls; processes of e5."""


class LocalModels:
    """Builds the specs and models of providers of kind `local`.

    `build_spec` checks the files of an ONNX directory, and reads at most 2 MiB of each new one. Apart from that, this
    class reads only package versions.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._digests = DigestCache()

    def build_spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
        """Return the spec; its `dim` is 0 while the dimensions of an ONNX or fastembed model are unknown.

        Raises ModelUnavailableError if a package or file is missing, or the record contradicts the model.
        """
        own = self._build_own_spec(model)
        query, document = model.query_prefix, model.document_prefix
        prefixes = f", prefixes {query!r} {document!r}" if query or document else ""  # they change the vectors
        return replace(
            own,
            provider=provider.name,
            name=model.name,
            preprocessing=own.preprocessing + prefixes,
            batch_texts=provider.max_batch_texts or own.batch_texts,
        )

    def build_model(self, provider: ProviderRecord, model: ModelRecord) -> AsyncModel:
        """Return the model, not opened. While the dimensions are unknown, it accepts any width.

        Raises ModelUnavailableError as `build_spec`, or if the files changed since `model.fingerprint` was computed.
        """
        spec = self.build_spec(provider, model)
        if model.fingerprint not in {None, spec.fingerprint}:
            raise ModelUnavailableError(
                f"the files of model {model.provider}/{model.name} were changed while it was in use; the new files are "
                "used after the next change of the registry, or within five minutes"
            )
        return _RegisteredLocalModel(self._build_own_model(model, spec), spec, model)

    @cached_property
    def _centring(self) -> Centring:
        return load_e5_centring()

    @cached_property
    def _use_spec(self) -> ModelSpec:
        return UseModel(slots=self._settings.slots).spec

    def _build_own_spec(self, model: ModelRecord) -> ModelSpec:
        match select_runtime(model):
            case LocalRuntime.USE:
                return _check_spec(self._use_spec, model)
            case LocalRuntime.E5:
                return _check_spec(build_e5_spec(self._centring, self._settings.slots), model)
            case LocalRuntime.ONNX:
                files = OnnxFiles.locate(model, self._settings.models_folder)
                cut = f", {files.max_tokens} tokens" if files.max_tokens else ""
                revision = files.revision or self._digests.compute_digest(files)
                return self._build_encoder_spec(model, revision, f"nfkc, onnx{cut}")
            case LocalRuntime.FASTEMBED:
                return self._build_encoder_spec(model, get_fastembed_revision(), "nfkc, fastembed")

    def _build_encoder_spec(self, model: ModelRecord, revision: str, preprocessing: str) -> ModelSpec:
        packaged = model.path is None and select_runtime(model) is LocalRuntime.ONNX
        spec = ModelSpec(
            provider=model.provider,
            name=model.name,
            revision=revision,
            preprocessing=preprocessing,
            dim=MINILM_DIM if packaged else model.dimensions or 0,
            max_chars=model.max_chars or _MAX_CHARS,
            batch_tokens=_BATCH_TOKENS,
            padded=True,
            slots=self._settings.slots,
        )
        return _check_spec(spec, model) if packaged else spec

    def _build_own_model(self, model: ModelRecord, spec: ModelSpec) -> AsyncModel:
        folder, threads, slots = self._settings.models_folder, self._settings.threads, self._settings.slots
        match select_runtime(model):
            case LocalRuntime.USE:
                return ThreadedModel(UseModel(threads=threads, slots=slots))
            case LocalRuntime.E5:
                return E5Model(E5Program(locate_e5_model(), threads), self._centring, slots)
            case LocalRuntime.ONNX:
                return ThreadedModel(OnnxModel(spec, OnnxFiles.locate(model, folder), threads))
            case LocalRuntime.FASTEMBED:
                return ThreadedModel(FastembedModel(spec, folder / "fastembed", threads))


class _RegisteredLocalModel:
    """A model under the spec and prefixes of its record. Prefixes do not count against the limit of characters."""

    def __init__(self, model: AsyncModel, spec: ModelSpec, record: ModelRecord) -> None:
        self.spec: Final = spec
        self._model = model
        self._prefixes = {TextRole.QUERY: record.query_prefix, TextRole.DOCUMENT: record.document_prefix}

    async def open(self) -> None:
        await self._model.open()

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        prefix = self._prefixes[role]
        return await self._model.embed([prefix + text for text in texts] if prefix else texts, role)

    async def close(self) -> None:
        await self._model.close()


def select_runtime(model: ModelRecord) -> LocalRuntime:
    """Return the runtime that the record names, or the one that the model's name implies."""
    return model.runtime or _RUNTIMES.get(model.name, LocalRuntime.ONNX)


def _check_spec(own: ModelSpec, model: ModelRecord) -> ModelSpec:
    """Check the registered dimensions, and limit `max_chars` to what the model reads."""
    if model.dimensions not in {None, own.dim}:
        raise ModelRecordInvalidError(
            f"model {model.provider}/{model.name} gives vectors of {own.dim} dimensions, and {model.dimensions} are "
            f"registered; set them to {own.dim} or omit them"
        )
    return replace(own, max_chars=min(model.max_chars or own.max_chars, own.max_chars))
