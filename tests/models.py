"""An embedder with one model that a test brings."""

from pathlib import Path

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.adapters.local.threaded import threaded
from skillbus.embedder.domain.model import DenseModel, EmbeddingModel, ModelSpec
from skillbus.embedder.settings import EmbedderSettings


class OnlyModel:
    """A `ModelFactory` that makes this model, whatever is registered."""

    def __init__(self, model: DenseModel) -> None:
        self._model = model

    def spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
        return self._model.spec

    def make(self, provider: ProviderRecord, model: ModelRecord) -> EmbeddingModel:
        return threaded(self._model)


def embedder_in(folder: Path, **more: object) -> EmbedderSettings:
    """Settings of an embedder that keeps its registry in this folder."""
    return EmbedderSettings.model_validate({"data": folder / "embedder", **more})
