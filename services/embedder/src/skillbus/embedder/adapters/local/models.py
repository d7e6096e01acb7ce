"""The models of a provider of kind `local`: what is known of them, and how they are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import LocalRuntime, ModelRecord, ProviderRecord
from skillbus.embedder.adapters.local.e5.centring import Centring
from skillbus.embedder.adapters.local.e5.model import E5Model, e5_centring, e5_model_file, e5_spec
from skillbus.embedder.adapters.local.e5.process import E5Program
from skillbus.embedder.adapters.local.fastembed_model import FastembedModel, fastembed_revision
from skillbus.embedder.adapters.local.onnx.files import MINILM_DIM, Digests, OnnxFiles
from skillbus.embedder.adapters.local.onnx.model import OnnxModel
from skillbus.embedder.adapters.local.threaded import threaded
from skillbus.embedder.adapters.local.use_model import UseModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec, Rows

_RUNTIMES: Final[Mapping[str, LocalRuntime]] = {
    "use-multilingual-v3": LocalRuntime.USE,
    "multilingual-e5-small": LocalRuntime.E5,
}
"""Any other name is that of an ONNX model."""
_MAX_CHARS: Final = 2048
_BATCH_TOKENS: Final = 256
"""Of MiniLM: 5,700 tokens/s in a batch of 8 texts of 20 tokens, no more in larger ones or with longer texts."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What the registry does not decide."""

    models_folder: Path
    """Below it lie the directories of ONNX models, and what fastembed fetched."""
    threads: int = 1
    """Of one call of a model."""
    slots: int = 1
    """Calls at the same time; of e5, processes."""


class LocalModels:
    """A `ModelFactory` for providers of kind `local`.

    For an ONNX directory `spec` looks whether its files are there and what they are, and reads at most 2 MiB of each of
    them when they are new; nothing else here does any input or output beyond reading the version of a package.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._digests = Digests()

    def spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        """None while the dimensions of an ONNX or fastembed model are unknown: it has to be asked for them.

        Raises:
            ModelUnavailableError: a package or a file is missing, or the record contradicts the model.
        """
        spec = self._spec(provider, model)
        return spec if spec.dim else None

    def make(self, provider: ProviderRecord, model: ModelRecord) -> EmbeddingModel:
        """The model, not opened. Where the dimensions are unknown, its spec has `dim` 0 and any width is taken.

        Raises:
            ModelUnavailableError: see `spec`; or the files are no longer those that `model.fingerprint` was told from.
        """
        spec = self._spec(provider, model)
        if model.fingerprint not in {None, spec.fingerprint}:
            raise ModelUnavailableError(
                f"the files of model {model.provider}/{model.name} were changed while it was in use; what they are now "
                "is read with the next change of the registry, or within five minutes"
            )
        return AsRegistered(self._made(model, spec), spec, Prefixes.of(model))

    @cached_property
    def _centring(self) -> Centring:
        return e5_centring()

    @cached_property
    def _use_spec(self) -> ModelSpec:
        return UseModel(slots=self._settings.slots).spec

    def _spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
        own = self._own_spec(model)
        return replace(
            own,
            provider=provider.name,
            name=model.name,
            preprocessing=own.preprocessing + Prefixes.of(model).as_preprocessing,
            batch_texts=provider.max_batch_texts or own.batch_texts,
        )

    def _own_spec(self, model: ModelRecord) -> ModelSpec:
        match runtime_of(model):
            case LocalRuntime.USE:
                return _checked(self._use_spec, model)
            case LocalRuntime.E5:
                return _checked(e5_spec(self._centring, self._settings.slots), model)
            case LocalRuntime.ONNX:
                files = OnnxFiles.registered(model, self._settings.models_folder)
                cut = f", {files.max_tokens} tokens" if files.max_tokens else ""
                return self._encoder_spec(model, files.revision or self._digests.of(files), f"nfkc, onnx{cut}")
            case LocalRuntime.FASTEMBED:
                return self._encoder_spec(model, fastembed_revision(), "nfkc, fastembed")

    def _encoder_spec(self, model: ModelRecord, revision: str, preprocessing: str) -> ModelSpec:
        packaged = model.path is None and runtime_of(model) is LocalRuntime.ONNX
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
        return _checked(spec, model) if packaged else spec

    def _made(self, model: ModelRecord, spec: ModelSpec) -> EmbeddingModel:
        folder, threads, slots = self._settings.models_folder, self._settings.threads, self._settings.slots
        match runtime_of(model):
            case LocalRuntime.USE:
                return threaded(UseModel(threads=threads, slots=slots))
            case LocalRuntime.E5:
                return E5Model(E5Program(e5_model_file(), threads), self._centring, slots)
            case LocalRuntime.ONNX:
                return threaded(OnnxModel(spec, OnnxFiles.registered(model, folder), threads))
            case LocalRuntime.FASTEMBED:
                return threaded(FastembedModel(spec, folder / "fastembed", threads))


def runtime_of(model: ModelRecord) -> LocalRuntime:
    """What computes it: as the record says, or as its name tells."""
    return model.runtime or _RUNTIMES.get(model.name, LocalRuntime.ONNX)


def _checked(own: ModelSpec, model: ModelRecord) -> ModelSpec:
    """The spec of a model whose dimensions are known; it reads no more characters than it can."""
    if model.dimensions not in {None, own.dim}:
        raise ModelUnavailableError(
            f"model {model.provider}/{model.name} makes vectors of {own.dim} dimensions, and {model.dimensions} are "
            f"registered; set them to {own.dim} or leave them out"
        )
    return replace(own, max_chars=min(model.max_chars or own.max_chars, own.max_chars))


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What stands before each text of a role."""

    query: str
    document: str

    @classmethod
    def of(cls, model: ModelRecord) -> Self:
        return cls(model.query_prefix, model.document_prefix)

    @property
    def as_preprocessing(self) -> str:
        """Other prefixes make other vectors; empty if there are none."""
        return f", prefixes {self.query!r} {self.document!r}" if self.query or self.document else ""

    def before(self, texts: Sequence[str], role: TextRole) -> Sequence[str]:
        prefix = self.query if role is TextRole.QUERY else self.document
        return [prefix + text for text in texts] if prefix else texts


class AsRegistered:
    """A model with another spec than its own. Its texts are behind prefixes, which count for no limit of characters."""

    def __init__(self, model: EmbeddingModel, spec: ModelSpec, prefixes: Prefixes) -> None:
        self.spec: Final = spec
        self._model = model
        self._prefixes = prefixes

    async def open(self) -> None:
        await self._model.open()

    async def embed(self, texts: Sequence[str], role: TextRole) -> Rows:
        return await self._model.embed(self._prefixes.before(texts, role), role)

    async def close(self) -> None:
        await self._model.close()
